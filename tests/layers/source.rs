//! The sources, parsed: which file names which, and what each defines. Code for tests is left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Type, UseTree};

/// One file of `src`.
pub(crate) struct Source {
    /// `src/os/guard.rs`.
    pub(crate) file: String,
    /// `["os", "guard"]`; the root has none.
    module: Vec<String>,
    /// Names of its structs, enums, unions, traits and type aliases.
    pub(crate) types: Vec<String>,
    /// Every path it names, as written, with the inline modules it stands in.
    paths: Vec<(usize, Vec<String>)>,
    /// `pub use child::Name`: the name and the path behind it.
    exports: BTreeMap<String, Vec<String>>,
    /// Functions in `impl` blocks, by the type's name.
    methods: BTreeMap<String, BTreeSet<String>>,
    /// Names of functions it calls on something: `x.name(…)`, `Self::name(…)`.
    calls: BTreeSet<String>,
    inline: usize,
}

fn for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// `a::{b, c as d}` as `(["a", "b"], "b")`, `(["a", "c"], "d")`; a glob has no name.
fn leaves(tree: &UseTree, before: &[String], found: &mut Vec<(Vec<String>, Option<String>)>) {
    let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &with(&path.ident), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.to_vec(), before.last().cloned()));
        }
        UseTree::Name(name) => found.push((with(&name.ident), Some(name.ident.to_string()))),
        UseTree::Rename(rename) => found.push((with(&rename.ident), Some(rename.rename.to_string()))),
        UseTree::Glob(_) => found.push((before.to_vec(), None)),
        UseTree::Group(group) => group.items.iter().for_each(|item| leaves(item, before, found)),
    }
}

impl<'ast> Visit<'ast> for Source {
    fn visit_item(&mut self, item: &'ast Item) {
        if for_tests(attributes(item)) {
            return;
        }
        let name = match item {
            Item::Struct(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            _ => None,
        };
        self.types.extend(name.map(ToString::to_string));
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.inline += 1;
        visit::visit_item_mod(self, item);
        self.inline -= 1;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut found = Vec::new();
        leaves(&item.tree, &[], &mut found);
        for (path, name) in found {
            if let (Some(name), false) = (name, matches!(item.vis, syn::Visibility::Inherited)) {
                self.exports.insert(name, path.clone());
            }
            self.paths.push((self.inline, path));
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if let (None, Type::Path(of)) = (&item.trait_, &*item.self_ty) {
            let of = of.path.segments.last().expect("a name").ident.to_string();
            let names = item.items.iter().filter_map(|item| match item {
                syn::ImplItem::Fn(function) if !for_tests(&function.attrs) => {
                    Some(function.sig.ident.to_string())
                }
                _ => None,
            });
            self.methods.entry(of).or_default().extend(names);
        }
        visit::visit_item_impl(self, item);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if words.len() == 2 && words[0] == "Self" {
            self.calls.insert(words[1].clone());
        }
        self.paths.push((self.inline, words));
        visit::visit_path(self, path);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        self.calls.insert(call.method.to_string());
        visit::visit_expr_method_call(self, call);
    }
}

impl Source {
    /// Parses a file below `root`, unless it serves tests only.
    pub(crate) fn read(root: &Path, path: &Path) -> Option<Self> {
        let file = path.strip_prefix(root).expect("inside").to_string_lossy().into_owned();
        let name = path.file_name().expect("a name").to_string_lossy();
        if name.ends_with("_tests.rs") || name == "tests.rs" || name.ends_with("_world.rs") {
            return None;
        }
        Some(Self::parse(&file, &std::fs::read_to_string(path).expect("source")))
    }

    pub(crate) fn parse(file: &str, text: &str) -> Self {
        let module = Path::new(file.trim_start_matches("src/")).with_extension("");
        let mut module: Vec<String> =
            module.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
        module.pop_if(|last| matches!(last.as_str(), "mod" | "lib"));
        let mut source = Self {
            file: file.to_owned(),
            module,
            types: Vec::new(),
            paths: Vec::new(),
            exports: BTreeMap::new(),
            methods: BTreeMap::new(),
            calls: BTreeSet::new(),
            inline: 0,
        };
        let parsed = syn::parse_file(text).unwrap_or_else(|error| panic!("{file}: {error}"));
        source.visit_file(&parsed);
        source
    }

    /// A path as written here, from the root of the crate; `None` for what is of another crate.
    fn absolute(&self, inline: usize, path: &[String]) -> Option<Vec<String>> {
        let first = path.first()?;
        if first == "crate" {
            return Some(path[1..].to_vec());
        }
        let ups = path.iter().take_while(|word| *word == "super").count();
        if ups > inline {
            let keep = self.module.len().checked_sub(ups - inline)?;
            return Some([&self.module[..keep], &path[ups..]].concat());
        }
        if ups == 0 && inline == 0 && first != "self" && first != "Self" {
            // A child module is named without a prefix, a use of another crate has the same form.
            return Some([&self.module[..], path].concat());
        }
        None
    }
}

/// Which file names which. A module may be named by those inside it: they share its words. The
/// other way, and between any two others, every arrow counts.
pub(crate) struct Graph {
    files: Vec<String>,
    arrows: Vec<BTreeSet<usize>>,
}

impl Graph {
    pub(crate) fn of(sources: &[Source]) -> Self {
        let modules: BTreeMap<&[String], usize> =
            sources.iter().enumerate().map(|(at, source)| (&source.module[..], at)).collect();
        let mut arrows = vec![BTreeSet::new(); sources.len()];
        for (from, source) in sources.iter().enumerate() {
            for (inline, path) in &source.paths {
                let Some(mut path) = source.absolute(*inline, path) else { continue };
                // Through re-exports to where the name is at home; a few steps are enough.
                for _ in 0..4 {
                    let Some((depth, to)) = home(&modules, &path) else { break };
                    let next = path.get(depth).and_then(|name| sources[to].exports.get(name));
                    match next.and_then(|next| sources[to].absolute(0, next)) {
                        Some(further) if further != path => {
                            path = [&further[..], &path[depth + 1..]].concat();
                        }
                        _ => break,
                    }
                }
                if let Some((_, to)) = home(&modules, &path)
                    && to != from
                    && !source.module.starts_with(&sources[to].module)
                {
                    arrows[from].insert(to);
                }
            }
        }
        // A type whose functions stand in two files: its own file calls what the other one holds.
        for (other, source) in sources.iter().enumerate() {
            for (of, names) in &source.methods {
                let at_home = |home: &&usize| sources[**home].types.contains(of) && **home != other;
                let homes: Vec<usize> = (0..sources.len()).collect();
                for home in homes.iter().filter(at_home) {
                    let own = sources[*home].methods.get(of).cloned().unwrap_or_default();
                    if arrows[other].contains(home)
                        && names.iter().any(|name| sources[*home].calls.contains(name) && !own.contains(name))
                    {
                        arrows[*home].insert(other);
                    }
                }
            }
        }
        Self { files: sources.iter().map(|source| source.file.clone()).collect(), arrows }
    }

    /// Groups of files of which each leads to each.
    pub(crate) fn circles(&self) -> Vec<String> {
        let reach: Vec<BTreeSet<usize>> = (0..self.files.len()).map(|from| self.reach(from)).collect();
        let mut told = BTreeSet::new();
        for from in 0..self.files.len() {
            let circle: BTreeSet<usize> =
                reach[from].iter().copied().filter(|to| reach[*to].contains(&from)).collect();
            if !circle.is_empty() {
                told.insert(circle);
            }
        }
        told.iter()
            .map(|circle| circle.iter().map(|at| self.files[*at].as_str()).collect::<Vec<_>>().join(" ↔ "))
            .collect()
    }

    fn reach(&self, from: usize) -> BTreeSet<usize> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(at) = next.pop() {
            next.extend(self.arrows[at].iter().copied().filter(|to| seen.insert(*to)));
        }
        seen
    }
}

/// The file that holds most of a path, and how many of its words that takes.
fn home(modules: &BTreeMap<&[String], usize>, path: &[String]) -> Option<(usize, usize)> {
    (1..=path.len()).rev().find_map(|depth| modules.get(&path[..depth]).map(|at| (depth, *at)))
}
