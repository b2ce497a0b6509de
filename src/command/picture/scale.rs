//! Where on the scale of a picture which time is written.

use crate::command::local_time;
use crate::model::time::WallTime;
use crate::verdict::timeline::Window;

/// Steps between two times of a scale, minutes.
const STEPS: [u64; 13] = [1, 5, 15, 30, 60, 120, 180, 360, 720, 1440, 2880, 10_080, 40_320];

/// Times to write, at round local times, at most `most` of them.
pub(super) fn marks(window: Window, most: usize) -> Vec<(WallTime, String)> {
    let most = u64::try_from(most.max(1)).unwrap_or(1);
    let step = STEPS.into_iter().find(|step| window.length() / (step * 60_000) < most);
    let step = step.unwrap_or(STEPS[STEPS.len() - 1]) * 60_000;
    let mut marks = Vec::new();
    let mut at = window.from.0;
    while at <= window.to.0 {
        // Round in the reader's zone, whatever a change of the clocks in between does.
        let local = at.saturating_add_signed(local_time::offset_ms(WallTime(at)));
        let past = local % step;
        if past != 0 {
            at += step - past;
            let local = at.saturating_add_signed(local_time::offset_ms(WallTime(at)));
            if at > window.to.0 || !local.is_multiple_of(step) {
                at += 1;
                continue;
            }
        }
        let time = WallTime(at);
        let midnight = at.saturating_add_signed(local_time::offset_ms(time)).is_multiple_of(86_400_000);
        let text = if step >= 86_400_000 || (midnight && window.length() > 86_400_000) {
            local_time::show_day(time)
        } else {
            local_time::show_minute(time)
        };
        marks.push((time, text));
        at += step;
    }
    marks
}
