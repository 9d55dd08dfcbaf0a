//! Brings the packages from their registries, with the package managers that know how, and reads what is used of them.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use super::Source;
use super::tables::{GoFiles, Tables};
use super::zones::Offerings;

// Versions are pinned: the same packages give the same file.
const MOTO: (&str, &str) = ("moto", "5.2.5");
const KARPENTER: (&str, &str) = ("github.com/aws/karpenter-provider-aws", "v1.14.1");
const PRICES: (&str, &str) = ("github.com/cristim/ec2-instances-info", "v0.0.0-20250528091325-32acf84f42eb");

/// What is used of the packages, as text.
pub(super) struct Packages {
    pub(super) instance_types: String,
    pub(super) offerings: BTreeMap<String, Offerings>,
    pub(super) tables: GoFiles,
    pub(super) instances: String,
    pub(super) notices: Vec<String>,
    /// The days on which moto, the reference and the prices were published.
    published: [String; 3],
}

impl Packages {
    pub(super) fn sources(&self, tables: &Tables) -> Vec<Source> {
        let [moto, karpenter, prices] = self.published.clone();
        let source = |(package, version), licence, date, gives| Source { package, version, licence, date, gives };
        vec![
            source(MOTO, "Apache-2.0", moto, "types, zones, which zone has which type".to_owned()),
            source(
                KARPENTER,
                "Apache-2.0",
                karpenter,
                format!(
                    "on-demand prices of {} as of {}, branch interfaces as of {}, bandwidths",
                    super::HOME,
                    tables.priced_on,
                    tables.limited_on
                ),
            ),
            source(PRICES, "MIT", prices, "on-demand prices of all other regions, average spot prices".to_owned()),
        ]
    }
}

pub(super) fn fetch() -> anyhow::Result<Packages> {
    let folder = tempfile::tempdir().context("making a folder for the packages")?;
    let (moto, moto_published) = fetch_wheel(folder.path())?;
    let karpenter = Module::fetch(KARPENTER, folder.path())?;
    let prices = Module::fetch(PRICES, folder.path())?;
    let resources = moto.join("moto/ec2/resources");
    let providers = karpenter.folder.join("pkg/providers");
    let licence = read(&prices.folder.join("LICENSE"))?;
    let notice = read(&karpenter.folder.join("NOTICE"))?;
    check_apache(&read(&moto.join(format!("{}-{}.dist-info/licenses/LICENSE", MOTO.0, MOTO.1)))?, MOTO.0)?;
    check_apache(&read(&karpenter.folder.join("LICENSE"))?, KARPENTER.0)?;
    Ok(Packages {
        instance_types: read_gzip(&resources.join("instance_types.json.gz"))?,
        offerings: read_offerings(&resources.join("instance_type_offerings"))?,
        tables: GoFiles {
            pricing: read(&providers.join("pricing/zz_generated.pricing_aws.go"))?,
            limits: read(&providers.join("instancetype/zz_generated.vpclimits.go"))?,
            bandwidth: read(&providers.join("instancetype/zz_generated.bandwidth.go"))?,
        },
        instances: read(&prices.folder.join("data/instances.json"))?,
        notices: vec![
            format!("Notice of {}:\n{}", KARPENTER.0, notice.trim_end()),
            format!("Licence of the data of {}:\n{}", PRICES.0, mit_part(&licence)?),
        ],
        published: [moto_published, karpenter.published, prices.published],
    })
}

/// The unpacked wheel and the day it was packed.
fn fetch_wheel(folder: &Path) -> anyhow::Result<(PathBuf, String)> {
    let wanted = format!("{}=={}", MOTO.0, MOTO.1);
    run(Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "--dest"])
        .arg(folder)
        .arg(wanted))?;
    let wheel = folder.join(format!("{}-{}-py3-none-any.whl", MOTO.0, MOTO.1));
    let listing = run(Command::new("python3").args(["-m", "zipfile", "-l"]).arg(&wheel))?;
    let unpacked = folder.join("unpacked");
    run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(&wheel).arg(&unpacked))?;
    let metadata = listing.lines().find(|line| line.contains(".dist-info/METADATA"));
    let published = metadata.and_then(|line| line.split_whitespace().nth(1)).context("the wheel has no metadata")?;
    Ok((unpacked, published.to_owned()))
}

/// A Go module in the module cache.
struct Module {
    folder: PathBuf,
    published: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Downloaded {
    dir: PathBuf,
    info: PathBuf,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    time: String,
}

impl Module {
    /// Runs outside of any module, so that nobody's go.mod has a say.
    fn fetch((path, version): (&str, &str), folder: &Path) -> anyhow::Result<Self> {
        let module = format!("{path}@{version}");
        let answer = run(Command::new("go").args(["mod", "download", "-json", &module]).current_dir(folder))?;
        let downloaded: Downloaded = serde_json::from_str(&answer).context("reading what go downloaded")?;
        let info: Info = serde_json::from_str(&read(&downloaded.info)?).context("reading when it was published")?;
        let published = info.time.get(..10).context("the module has no date")?.to_owned();
        Ok(Self { folder: downloaded.dir, published })
    }
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("starting {shown}"))?;
    if !output.status.success() {
        // go puts its errors into the answer when that is asked for as JSON.
        let said = [output.stderr, output.stdout].concat();
        bail!("{shown} failed: {}", String::from_utf8_lossy(&said).trim_end());
    }
    String::from_utf8(output.stdout).with_context(|| format!("reading the answer of {shown}"))
}

fn read_offerings(folder: &Path) -> anyhow::Result<BTreeMap<String, Offerings>> {
    let by_name = folder.join("availability-zone");
    let entries = std::fs::read_dir(&by_name).with_context(|| format!("listing {}", by_name.display()))?;
    let mut offerings = BTreeMap::new();
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", by_name.display()))?.path();
        let file = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some(region) = file.strip_suffix(".json.gz") else { continue };
        let by_id = folder.join("availability-zone-id").join(file);
        let lists = Offerings { by_name: read_gzip(&path)?, by_id: read_gzip(&by_id)? };
        offerings.insert(region.to_owned(), lists);
    }
    Ok(offerings)
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

fn read_gzip(path: &Path) -> anyhow::Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .with_context(|| format!("unpacking {}", path.display()))?;
    Ok(text)
}

/// Facts may come along only under a licence that we looked at.
fn check_apache(text: &str, package: &str) -> anyhow::Result<()> {
    let is_apache = text.contains("Apache License") && text.contains("Version 2.0, January 2004");
    ensure!(is_apache, "{package} is no longer under Apache-2.0: look at its licence before taking its facts");
    Ok(())
}

/// The code of that package is in the public domain; its data is under MIT, whose text must travel with it.
pub(super) fn mit_part(text: &str) -> anyhow::Result<&str> {
    let start = text.find("Copyright (c)").filter(|start| text[*start..].contains("Permission is hereby granted"));
    let start = start.with_context(|| format!("{} is no longer under MIT: look at its licence first", PRICES.0))?;
    Ok(text[start..].trim_end())
}
