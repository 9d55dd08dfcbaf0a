//! `dovetail simulate`: plays a scenario and tells what came of it.
//!
//! The cluster runs on a clock that stands still while we are not inside `Play::advance`. Everything that touches the world, such as
//! printing, drawing the bar, waiting for the wall clock and writing files, happens between two calls of it.

mod chart;
mod progress;
mod recording;
mod text;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use runtime::Clock;
use sim::scenario::{Play, Report, Story, paused_runtime};

use crate::args::{Output, Simulate, Speed};
use crate::output::print;
use progress::Progress;
use recording::Recording;

/// Where recorded workloads lie, and the name that scenarios have for it.
const DATA: &str = "DOVETAIL_DATA";
const DATA_DEFAULT: &str = "../shared/data";
/// A story is played in so many parts when nothing slows it down.
const PARTS: u32 = 200;
/// How often something moves on the screen when a story is slowed down.
const BEAT: Duration = Duration::from_millis(100);

pub(crate) fn run(command: &Simulate) -> anyhow::Result<()> {
    let file = command.file.display().to_string();
    let text = std::fs::read_to_string(&command.file).with_context(|| format!("cannot read the scenario {file}"))?;
    let folder = command.file.parent().unwrap_or(Path::new("."));
    let story = Story::read(&file, &text, &|path| open(folder, path))?;
    let replay = format!("dovetail simulate {} --seed {}", quoted(&file), command.seed);
    let report = play(command, &story).with_context(|| format!("the play failed; to see it again: {replay}"))?;
    match command.output {
        Output::Text => print(&text::ending(&story, &report, &replay))?,
        Output::Json => {
            print(&format!("{}\n", serde_json::to_string_pretty(&report).context("cannot write the report")?))?
        }
    }
    let failed = report.expectations.iter().filter(|expectation| !expectation.ok).count();
    let all = report.expectations.len();
    anyhow::ensure!(report.is_as_expected(), "{failed} of {all} expectations failed; to see it again: {replay}");
    Ok(())
}

fn play(command: &Simulate, story: &Story) -> anyhow::Result<Report> {
    let clock = Clock::wall();
    let start = clock.now();
    let runtime = paused_runtime().context("cannot start")?;
    let mut recording = command.record.as_deref().map(Recording::create).transpose()?;
    let mut play = runtime.block_on(async { Play::new(story, command.seed) })?;
    if let Some(recording) = &recording {
        play.world().record(recording.journal(), recording::origin(command));
    }
    let mut progress = Progress::new(story.duration);
    if command.output == Output::Text {
        print(&text::heading())?;
    }
    let factor = match command.speed {
        Speed::Max => None,
        Speed::One => Some(1),
        Speed::Sixty => Some(60),
    };
    let part = factor.map_or(story.duration / PARTS, |factor| BEAT * factor).max(Duration::from_millis(1));
    while play.now() < story.duration {
        let next = play.now() + part;
        runtime.block_on(play.advance(next))?;
        if let Some(factor) = factor {
            let due = play.now() / factor;
            let passed = Duration::try_from(clock.now().duration_since(start)).unwrap_or_default();
            std::thread::sleep(due.saturating_sub(passed));
        }
        tell(command.output, &mut play, &mut progress)?;
        recording.as_mut().map_or(Ok(()), Recording::save)?;
        progress.show(play.now());
    }
    let mut report = runtime.block_on(play.end())?;
    tell(command.output, &mut play, &mut progress)?;
    recording.map_or(Ok(()), Recording::finish)?;
    report.wall_seconds = clock.now().duration_since(start).as_secs_f64();
    Ok(report)
}

fn tell(output: Output, play: &mut Play<'_>, progress: &mut Progress) -> anyhow::Result<()> {
    let happenings = play.take_happenings();
    if output == Output::Text && !happenings.is_empty() {
        progress.clear();
        print(&happenings.iter().map(text::line).collect::<String>())?;
    }
    Ok(())
}

/// A file that a scenario names: beside the scenario, or among the recorded workloads.
fn open(folder: &Path, path: &str) -> Result<String, String> {
    let of_data =
        path.strip_prefix('$').and_then(|rest| rest.strip_prefix(DATA)).and_then(|rest| rest.strip_prefix('/'));
    let place = match of_data {
        Some(rest) => std::env::var_os(DATA).map_or_else(|| DATA_DEFAULT.into(), std::path::PathBuf::from).join(rest),
        None => folder.join(path),
    };
    std::fs::read_to_string(&place).map_err(|error| format!("{}: {error}", place.display()))
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:@%".contains(letter);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_any_name_can_be_named_to_a_shell() {
        assert_eq!(quoted("scenarios/a-b.yaml"), "scenarios/a-b.yaml");
        assert_eq!(quoted("it's here.yaml"), r"'it'\''s here.yaml'");
    }
}
