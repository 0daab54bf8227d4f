//! The time that a piece of code keeps a processor busy, which does not depend on the other work of the machine.

use std::fs;
use std::time::{Duration, Instant};

/// The time for which this thread had a processor while `run` ran, and the result. On systems other than Linux: the time that passed.
pub fn processor_time<T>(run: impl FnOnce() -> T) -> (Duration, T) {
    let (begun, before) = (Instant::now(), of_thread());
    let result = run();
    let took = before
        .zip(of_thread())
        .map_or_else(|| begun.elapsed(), |(before, after)| after.saturating_sub(before));
    (took, result)
}

/// The time for which this thread has had a processor since it began.
fn of_thread() -> Option<Duration> {
    let numbers = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(numbers.split(' ').next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_sleeps_keeps_no_processor_busy() {
        let slept = processor_time(|| std::thread::sleep(Duration::from_millis(200))).0;
        assert!(!cfg!(target_os = "linux") || slept < Duration::from_millis(100), "{slept:?}");
    }
}
