//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand, ValueEnum};
use controllers::settings::Flags;

/// A node autoscaler for Kubernetes that speaks Karpenter's API.
#[derive(Debug, Parser)]
#[command(name = "dovetail", version, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Crds(Crds),
    Controller(Box<Controller>),
    Simulate(Simulate),
}

/// Play a scenario: the autoscaler in a simulated cluster under virtual time, without a cluster or a bill.
#[derive(Debug, clap::Args)]
pub(crate) struct Simulate {
    /// Manifests and one `kind: Scenario`, as YAML.
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What chance is drawn from; the same seed gives the same story.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// How fast time passes.
    #[arg(long, value_enum, default_value_t = Speed::Max)]
    pub(crate) speed: Speed,
    /// A story for people or one object for programs.
    #[arg(long, value_enum, default_value_t = Output::Text)]
    pub(crate) output: Output,
    /// Write down what the controllers saw and decided, as lines of JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Speed {
    /// As fast as the machine can.
    Max,
    /// As fast as in real life.
    #[value(name = "1x")]
    One,
    /// A minute in a second.
    #[value(name = "60x")]
    Sixty,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Text,
    Json,
}

/// Run the autoscaler: out of a cluster with a kubeconfig, in one with its service account.
#[derive(Debug, clap::Args)]
pub(crate) struct Controller {
    /// The cloud that machines come from.
    #[arg(long, value_enum)]
    pub(crate) provider: Cloud,
    /// What the simulated cloud sells: `ec2:REGION` for what EC2 sells there, with its prices [default: kwok's own types].
    #[arg(long, value_name = "CATALOG", conflicts_with = "instance_types_file_path")]
    pub(crate) catalog: Option<String>,
    /// A file in the reference's format that lists what the simulated cloud sells.
    #[arg(long, value_name = "FILE")]
    pub(crate) instance_types_file_path: Option<PathBuf>,
    /// The file that names the cluster [default: KUBECONFIG, then ~/.kube/config, then the pod's service account].
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of that file to use.
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) flags: Flags,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Cloud {
    /// Simulated machines, for kwok to play the kubelet of.
    Kwok,
}

/// Print the custom resource definitions as YAML, or bring them into a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Crds {
    /// Whose kinds and label rules to include.
    #[arg(long, value_enum, default_value_t = Provider::Aws)]
    pub(crate) provider: Provider,
    /// Create or update the definitions in the cluster instead of printing them.
    #[arg(long)]
    pub(crate) apply: bool,
    /// The file that names the cluster.
    #[arg(long, value_name = "FILE", requires = "apply")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of that file to use.
    #[arg(long, value_name = "NAME", requires = "apply")]
    pub(crate) context: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Provider {
    /// AWS: EC2NodeClass, AWS label rules, and the legacy Provisioner and AWSNodeTemplate.
    Aws,
    /// The simulated cloud: KWOKNodeClass and its label rules.
    Kwok,
    /// No cloud: NodePool, NodeClaim, NodeOverlay and CapacityBuffer.
    Core,
}

/// What became of the command line.
pub(crate) enum Parsed {
    Run(Args),
    /// Help or version was asked for, and printed.
    Shown,
    /// One line that says what is wrong and where to look.
    Refused(String),
}

pub(crate) fn parse(words: impl IntoIterator<Item = OsString>) -> Parsed {
    match Args::try_parse_from(words) {
        Ok(args) => Parsed::Run(args),
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            // Nobody is left to tell when standard output is closed.
            let _ = error.print();
            Parsed::Shown
        }
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Parsed::Refused("no command given; run `dovetail --help` for the list".to_owned())
        }
        Err(error) => Parsed::Refused(refusal(&error)),
    }
}

/// Clap explains over several paragraphs; the first says what is wrong, and its hints stand in the others.
fn refusal(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let what = paragraphs.next().unwrap_or_default();
    let what = what.strip_prefix("error: ").unwrap_or(&what).to_owned();
    let hint = paragraphs.find_map(|paragraph| paragraph.strip_prefix("tip: ").map(|tip| format!("; {tip}")));
    format!("{what}{}; run `dovetail --help` for what there is", hint.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(words: &[&str], expected: &str) {
        let words = std::iter::once("dovetail").chain(words.iter().copied()).map(OsString::from);
        match parse(words) {
            Parsed::Refused(line) => {
                assert!(!line.contains('\n'), "{line}");
                assert!(line.contains(expected), "{line}");
            }
            Parsed::Run(_) | Parsed::Shown => panic!("{expected} was not refused"),
        }
    }

    #[test]
    fn a_wrong_command_line_is_explained_on_one_line() {
        check(&["crdz"], "unrecognized subcommand 'crdz'; a similar subcommand exists: 'crds'");
        check(
            &["crds", "--provider", "azure"],
            "invalid value 'azure' for '--provider <PROVIDER>' [possible values: aws, kwok, core]",
        );
        check(&["crds", "--provier", "aws"], "unexpected argument '--provier' found");
        check(&["crds", "--kubeconfig", "x"], "--apply");
        check(&[], "no command given");
    }

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
