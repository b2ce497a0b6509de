//! Ten thousand random histories of a run against a plain model of "is something of it at work?": a pass
//! never closes one that is, and closes one that has been finished for long.

use super::*;
use crate::model::mark::{AgentMark, AgentSaid, Background};
use crate::model::terminal::{Activity, Member, Output, Storage, Viewer};

const IDLE: u64 = 600;
const JOB_QUIET: u64 = 7200;
/// The wall clock may be set by so much, seconds, now and then.
const STEP: u64 = 60;
const BEGIN: u64 = 1_000_000;

/// A small generator: the seed of a failure is its number.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What an agent tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryKind {
    /// Beginnings and ends of turns, and what goes on in the background.
    Everything,
    /// Beginnings and ends.
    Turns,
    /// Ends only, as a notify program does; it prints all through a turn.
    Ends,
    Nothing,
}

/// Work that a turn began.
#[derive(Clone, Debug)]
struct Job {
    pid: u32,
    /// Double forked: found by its pulse only.
    adopted: bool,
    started: u64,
    works: bool,
    /// Since when passes have seen it do nothing.
    quiet: Option<u64>,
}

/// The run as it really is. Times are seconds of a clock that nobody sets.
struct Run {
    kind: HistoryKind,
    now: u64,
    /// The wall clock is so far ahead of it.
    skew: u64,
    mark: AgentMark,
    turn: bool,
    /// It waits for its server, nothing else shows it.
    thinks: bool,
    asks: bool,
    jobs: Vec<Job>,
    planned: u64,
    printed: u64,
    attached: bool,
    active: u64,
    scrolls: bool,
    /// Since when nothing of it has been at work.
    resting: u64,
}

impl Run {
    fn new(kind: HistoryKind) -> Self {
        let mark = AgentMark::after(None, AgentSaid::Claimed, WallTime(BEGIN * 1000));
        let now = BEGIN + 5;
        Self {
            kind,
            now,
            skew: 0,
            mark,
            turn: false,
            thinks: false,
            asks: false,
            jobs: Vec::new(),
            planned: 0,
            printed: BEGIN,
            attached: false,
            active: 0,
            scrolls: false,
            resting: BEGIN,
        }
    }

    fn wall(&self) -> WallTime {
        WallTime((self.now + self.skew) * 1000)
    }

    fn say(&mut self, said: AgentSaid) {
        self.mark = AgentMark::after(Some(&self.mark), said, self.wall());
    }

    /// Is something of it at work, or somebody there?
    fn at_work(&self) -> bool {
        let job = |job: &Job| job.quiet.is_none_or(|since| self.now - since < JOB_QUIET);
        self.turn
            || self.asks
            || self.planned > 0
            || self.jobs.iter().any(job)
            || self.attached && (self.scrolls || self.now - self.active < IDLE - STEP)
    }

    fn step(&mut self, random: &mut Random) {
        let rest = if self.turn && self.kind == HistoryKind::Ends { 40 } else { 400 };
        self.now += 1 + random.below(rest);
        if self.turn && (self.kind == HistoryKind::Ends || random.chance(40)) {
            self.printed = self.now;
        }
        match random.below(14) {
            0..=2 if !self.turn && !self.asks => self.begin(random),
            3 | 4 if self.turn => self.end(random),
            5 if self.turn && self.kind != HistoryKind::Ends => self.cut_short(),
            6 if self.turn => self.start_job(random),
            7 if !self.jobs.is_empty() => {
                let which = usize::try_from(random.below(self.jobs.len() as u64)).unwrap_or(0);
                self.jobs.remove(which);
            }
            8 if self.turn && matches!(self.kind, HistoryKind::Everything | HistoryKind::Turns) => {
                (self.turn, self.asks, self.thinks) = (false, true, false);
                self.say(AgentSaid::Question);
            }
            9 if self.asks => {
                (self.turn, self.asks) = (true, false);
                self.say(AgentSaid::Busy);
            }
            // A reminder, a minute after a turn.
            10 if !self.turn
                && self.mark.idle.count > 0
                && matches!(self.kind, HistoryKind::Everything | HistoryKind::Turns) =>
            {
                self.printed = self.now;
                self.say(AgentSaid::Reminder);
            }
            11 => (self.attached, self.active, self.scrolls) = (true, self.now, random.chance(20)),
            12 => (self.attached, self.scrolls) = (false, false),
            13 if self.planned > 0 && !self.turn && !self.asks => {
                // What was planned happens: the agent wakes by itself.
                self.planned = 0;
                self.begin(random);
            }
            _ => {}
        }
        if self.kind == HistoryKind::Everything && random.chance(3) {
            self.skew = random.below(STEP);
        }
        if self.at_work() {
            self.resting = self.now;
        }
    }

    fn begin(&mut self, random: &mut Random) {
        (self.turn, self.thinks, self.printed) = (true, random.chance(30), self.now);
        if matches!(self.kind, HistoryKind::Everything | HistoryKind::Turns) {
            self.say(AgentSaid::Busy);
        }
    }

    fn start_job(&mut self, random: &mut Random) {
        let pid = 100 + u32::try_from(random.below(1_000_000)).unwrap_or(0);
        // Who knows all its work reports what it adopted out, too.
        let adopted = self.kind != HistoryKind::Everything && random.chance(30);
        self.jobs.push(Job { pid, adopted, started: self.now, works: random.chance(30), quiet: None });
    }

    fn end(&mut self, random: &mut Random) {
        (self.turn, self.thinks, self.printed) = (false, false, self.now);
        if self.kind == HistoryKind::Everything && random.chance(15) {
            self.planned = 1;
        }
        let open = self.jobs.len() as u64 + self.planned;
        match self.kind {
            HistoryKind::Everything if open == 0 => self.say(AgentSaid::Idle(Background::None)),
            HistoryKind::Everything => self.say(AgentSaid::Idle(Background::Some(open))),
            HistoryKind::Turns | HistoryKind::Ends => self.say(AgentSaid::Idle(Background::NotSaid)),
            HistoryKind::Nothing => {}
        }
    }

    /// Esc: the tools are killed, and no hook speaks.
    fn cut_short(&mut self) {
        (self.turn, self.thinks, self.printed) = (false, false, self.now);
        self.jobs.retain(|job| job.adopted);
    }

    /// What a pass sees of it.
    fn seen(&mut self, random: &mut Random) -> Terminal {
        let bucket = |second: u64| WallTime((second - second % 8 + 8) * 1000);
        let output = bucket(self.printed + self.skew);
        let member = |pid: u32, parent: u32, started: u64| Member {
            pid,
            parent,
            comm: format!("p{pid}"),
            state: 'S',
            leader: pid == 10,
            group: 10,
            started: WallTime((started + self.skew) * 1000),
            cpu: Duration::ZERO,
            storage: Storage::Moved(0),
            on_terminal: pid == 11,
            quiet: None,
        };
        let mut members = vec![member(10, 1, BEGIN), member(11, 10, BEGIN + 1), member(12, 11, BEGIN + 3)];
        // A turn that neither thinks nor runs a tool computes or writes.
        if self.turn && !self.thinks && self.jobs.is_empty() {
            if random.chance(50) {
                members[1].cpu = Duration::from_millis(60 + random.below(900));
            } else {
                members[1].storage = Storage::Moved(1 + random.below(4096));
            }
        }
        let now = self.now;
        for job in &mut self.jobs {
            let mut one = member(job.pid, if job.adopted { 1 } else { 11 }, job.started);
            if job.works && random.chance(50) {
                one.cpu = Duration::from_millis(200);
                job.quiet = None;
            } else if !job.works {
                one.quiet = Some(Duration::from_secs(now - *job.quiet.get_or_insert(now)));
            }
            members.push(one);
        }
        Terminal {
            id: "%1".into(),
            title: String::new(),
            belongs: Belongs::Named("nightly".into()),
            own: false,
            dead: false,
            leader: None,
            tty: None,
            started: Some(WallTime((BEGIN + self.skew) * 1000)),
            output: Output { moved: Some(output), printed_by: Some(output), source: String::new() },
            idle: Idle::Marked(self.mark.clone()),
            viewer: Viewer {
                attached: self.attached,
                active: self.attached.then_some(WallTime((self.active + self.skew) * 1000)),
                in_mode: self.scrolls,
                came: None,
            },
            session: None,
            newest_of_reuse: false,
            close_last: false,
            processes: Processes::Seen(Activity {
                sample: Duration::from_secs(1),
                foreground: 10,
                members,
                connections: Some(usize::from(self.turn && self.thinks)),
            }),
            again: Again::Same,
        }
    }
}

fn policy(now: WallTime, interrupted: Option<Duration>) -> ReapPolicy {
    ReapPolicy {
        now,
        idle: Duration::from_secs(IDLE),
        close_newest: false,
        residents: vec![],
        agents: vec![],
        job_quiet: Duration::from_secs(JOB_QUIET),
        interrupted,
    }
}

#[test]
fn of_ten_thousand_histories_none_is_closed_at_work_and_the_finished_go() {
    let (mut closed, mut passes) = ([0_u32; 4], 0_u32);
    for seed in 0..10_000_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1);
        let kinds = [HistoryKind::Everything, HistoryKind::Turns, HistoryKind::Ends, HistoryKind::Nothing];
        let which = usize::try_from(random.below(4)).unwrap_or(0);
        let mut run = Run::new(kinds[which]);
        let interrupted = random.chance(30).then_some(Duration::from_secs(1800));
        for step in 0..60 {
            run.step(&mut random);
            let terminal = run.seen(&mut random);
            let verdict = judge(&terminal, &policy(run.wall(), interrupted));
            passes += 1;
            let say = || format!("seed {seed}, step {step}, {:?}: {verdict:?}\n{terminal:?}", run.kind);
            assert!(verdict != Verdict::Close || !run.at_work(), "closed at work: {}", say());
            assert!(
                verdict != Verdict::Close || run.kind != HistoryKind::Nothing,
                "nobody said it had ended: {}",
                say()
            );
            let said = run.mark.idle.count > 0 && run.mark.word == crate::model::mark::MarkWord::Idle;
            let told = matches!(run.kind, HistoryKind::Everything | HistoryKind::Turns) && said;
            let long = run.now - run.resting.max(run.printed) > IDLE + STEP + 9;
            // The clock was set: a mark may lie ahead of the beginning that is reckoned from it.
            let steady = run.skew == 0 && run.mark.at <= run.wall();
            if told && long && steady && run.jobs.is_empty() {
                assert_eq!(verdict, Verdict::Close, "finished for long: {}", say());
            }
            if verdict == Verdict::Close {
                closed[which] += 1;
                break;
            }
        }
    }
    assert!(passes > 100_000, "{passes} passes");
    assert!(closed[0] > 500 && closed[1] > 500 && closed[2] > 200 && closed[3] == 0, "{closed:?}");
}
