use super::*;
use proptest::prelude::*;
use std::os::unix::ffi::OsStrExt;

fn name(text: &str) -> LockName {
    LockName::parse(OsStr::new(text)).expect(text)
}

#[test]
fn what_is_no_name() {
    let long = "n".repeat(201);
    let bad: [&[u8]; 13] = [
        b"",
        b".",
        b"..",
        b"./x",
        b"../x",
        b"a\nb",
        b"\x1b[2J",
        b"\x7f",
        "\u{85}".as_bytes(),
        b"\xff",
        b"a\xffb",
        long.as_bytes(),
        b"10m",
    ];
    for text in bad {
        assert!(LockName::parse(OsStr::from_bytes(text)).is_err(), "{text:?}");
    }
    let hint = LockName::parse(OsStr::new("10m")).expect_err("a duration");
    assert!(hint.contains("-w 10m"), "{hint}");
}

#[test]
fn what_fits_the_pattern_keeps_its_file_and_the_rest_is_encoded() {
    for text in ["a", "sync", "A.b_c-9", "10", "n".repeat(200).as_str()] {
        assert_eq!(name(text).file(), text);
    }
    for (text, stem) in [
        ("feature/login", "feature%2Flogin"),
        ("acme/tools#42", "acme%2Ftools%2342"),
        ("/tmp/sync.lock", "%2Ftmp%2Fsync.lock"),
        (".x", "%2Ex"),
        ("-x", "%2Dx"),
        ("_x", "%5Fx"),
        ("...", "%2E.."),
        ("a b", "a%20b"),
        ("100%", "100%25"),
        ("a%2Fb", "a%252Fb"),
        ("é", "%C3%A9"),
    ] {
        assert_eq!(name(text).file(), stem);
        assert_eq!(LockName::from_stem(stem.as_bytes()), Some(name(text)));
    }
}

#[test]
fn a_file_of_nobodys_is_no_name() {
    let bad: [&[u8]; 12] =
        [b"", b"%", b"%2", b"%2f", b"%41", b"%zz", b".x", b"_x", b"a b", b"%FF", b"%00", b"a%-0"];
    for stem in bad {
        assert_eq!(LockName::from_stem(stem), None, "{stem:?}");
    }
    assert!(is_hashed(b"a%-0") && !is_hashed(b"a%2D0"));
}

#[test]
fn a_long_one_is_its_first_part_and_a_hash() {
    let (one, other) = (format!("{}a", "/".repeat(199)), format!("{}b", "/".repeat(199)));
    let (one, other) = (name(&one), name(&other));
    assert_ne!(one.file(), other.file());
    for name in [&one, &other] {
        assert!(name.file().len() <= STEM_MAX && is_hashed(name.file().as_bytes()), "{}", name.file());
        assert_eq!(LockName::from_stem(name.file().as_bytes()), None, "its record tells");
        assert_eq!(LockName::of(name.as_str()).as_ref(), Some(name));
    }
    assert_eq!(name(&"/".repeat(66)).file().len(), 198);
    assert!(is_hashed(name(&"/".repeat(67)).file().as_bytes()));
}

#[test]
fn a_name_is_shown_as_typed_and_typed_so_that_a_shell_understands() {
    for (text, shown, typed) in [
        ("feature/login", "feature/login", "feature/login"),
        ("a b", "a b", "'a b'"),
        ("it's", "it's", "'it'\\''s'"),
        ("x#1", "x#1", "'x#1'"),
        ("-x", "-x", "-- -x"),
        ("a\u{202e}b", "a\\u{202e}b", "$'a\\u202eb'"),
    ] {
        assert_eq!((name(text).to_string().as_str(), format!("{:#}", name(text)).as_str()), (shown, typed));
    }
}

proptest! {
    /// Two texts are one file only if they are equal, also where the file is a hash.
    #[test]
    fn two_names_are_one_file_only_if_they_are_equal(one in "\\PC{1,70}", other in "\\PC{1,70}", at in 0..200usize) {
        let edited: String = one.chars().enumerate().map(|(i, c)| if i == at { 'Z' } else { c }).collect();
        for (a, b) in [(&one, &other), (&one, &edited), (&one, &one)] {
            if let (Some(a), Some(b)) = (LockName::of(a), LockName::of(b)) {
                prop_assert_eq!(a.file() == b.file(), a.as_str() == b.as_str());
                let path = format!(".{}.corrupt.999", a.file());
                prop_assert!(path.len() <= 255 && !path.contains('/') && !a.file().starts_with(['.', '-', '_']));
            }
        }
    }

    #[test]
    fn a_name_comes_back_from_its_file(text in "\\PC{1,60}|[./%_ -]{1,60}") {
        if let Some(name) = LockName::of(&text) {
            let back = LockName::from_stem(name.file().as_bytes());
            if is_hashed(name.file().as_bytes()) {
                prop_assert_eq!(back, None);
            } else {
                prop_assert_eq!(back, Some(name));
            }
        }
    }

    #[test]
    fn no_file_name_crashes_the_reader(stem in prop::collection::vec(prop::num::u8::ANY, 0..260)) {
        if let Some(name) = LockName::from_stem(&stem) {
            prop_assert_eq!(name.file().as_bytes(), &stem[..]);
        }
    }
}
