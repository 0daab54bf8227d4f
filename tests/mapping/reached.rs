//! The time up to which a mapping has delivered every change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use afterwrite_mapping::{
    EventHandler, EventSourceMapping, MappingControl, MappingOptions, MappingProgress, MappingSettings,
    MemoryCheckpoints,
};
use afterwrite_model::Result;
use afterwrite_model::clock::Clock as _;

use super::harness::function_error;
use super::simulated_stream::SimulatedStream;

/// A function that fails while it is broken.
struct BreakableFunction(AtomicBool);

impl EventHandler for BreakableFunction {
    async fn handle(&self, _event: Vec<u8>, _remaining: Duration) -> Result<Vec<u8>> {
        if self.0.load(Ordering::Relaxed) { Err(function_error()) } else { Ok(b"{}".to_vec()) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_that_is_not_delivered_holds_up_the_time_that_is_reached() {
    let stream = SimulatedStream::of(&["100", "101"]);
    let (function, progress) = (BreakableFunction(AtomicBool::new(false)), MappingProgress::default());
    let (settings, checkpoints) = (MappingSettings::default(), MemoryCheckpoints::default());
    let options = MappingOptions::new(&progress, &checkpoints);
    let (clock, control) = (stream.clock, MappingControl::default());
    let mapping = EventSourceMapping::new(&stream, &function, &clock, &settings, options);
    assert_eq!(progress.reached(), None, "nothing was read");
    let minute = || clock.sleep(Duration::from_secs(60));
    let observed = async {
        minute().await;
        // The stream is quiet: each read that finds the end moves the time.
        let quiet = progress.reached().unwrap();
        minute().await;
        assert!(progress.reached().unwrap().since(quiet) > Duration::from_secs(50));

        function.0.store(true, Ordering::Relaxed);
        let before = clock.now();
        stream.write("s", "102");
        minute().await;
        let held = progress.reached().unwrap();
        assert!(held <= before, "the record at {before} is not delivered, and {held} is reached");
        minute().await;
        assert_eq!(progress.reached(), Some(held));

        function.0.store(false, Ordering::Relaxed);
        clock.sleep(Duration::from_secs(600)).await;
        assert!(clock.now().since(progress.reached().unwrap()) < Duration::from_secs(10));
        control.drain();
    };
    let (end, ()) = tokio::join!(mapping.run(&control), observed);
    assert!(end.is_ok(), "{end:?}");
}
