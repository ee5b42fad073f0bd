//! Writes what is derived from the types: the CustomResourceDefinition, the controllers' rights, the table of the
//! admission policies, and the ownership table of the docs. With `--check` it writes nothing and fails when a file
//! is not what it would write.

mod docs;
mod policy;
mod rbac;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Parser;
use sampledb_shared::api::ownership::CONTROLLERS;
use sampledb_shared::domain::crd;
use serde::Serialize;

const HEADER: &str = "# Generated from shared/src/api by `make crds`; do not edit.\n";

/// Writes what is derived from the types.
#[derive(Parser)]
struct Arguments {
    /// Writes nothing; fails when a file is not current.
    #[arg(long)]
    check: bool,
    /// The chart's folder.
    chart: PathBuf,
    /// The page with the ownership table, between its markers.
    docs: Option<PathBuf>,
}

/// A file as it should be.
struct Generated {
    path: PathBuf,
    content: String,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut files = chart(&arguments.chart)?;
    if let Some(page) = &arguments.docs {
        files.push(documentation(page)?);
    }
    let mut stale = Vec::new();
    for file in files {
        if fs::read_to_string(&file.path).is_ok_and(|content| content == file.content) {
            continue;
        }
        if arguments.check {
            stale.push(file.path.display().to_string());
            continue;
        }
        if let Some(folder) = file.path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        fs::write(&file.path, file.content)
            .with_context(|| format!("cannot write {}", file.path.display()))?;
    }
    if !stale.is_empty() {
        bail!("not current, run `make crds`: {}", stale.join(", "));
    }
    Ok(())
}

fn chart(folder: &Path) -> Result<Vec<Generated>> {
    let files = folder.join("files");
    let mut generated = vec![
        Generated {
            path: files.join("crds/sampledbs.yaml"),
            content: yaml(&crd::sampledb())?,
        },
        Generated {
            path: files.join("policies/owners.yaml"),
            content: yaml(&policy::owners())?,
        },
    ];
    for writer in CONTROLLERS {
        generated.push(Generated {
            path: files.join("rbac").join(format!("{}.yaml", writer.manager)),
            content: yaml(&rbac::rights(writer))?,
        });
    }
    Ok(generated)
}

fn documentation(page: &Path) -> Result<Generated> {
    let before = fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let content = docs::replaced(&before).with_context(|| {
        format!(
            "{} has no lines `{}` and `{}`",
            page.display(),
            docs::BEGIN,
            docs::END
        )
    })?;
    Ok(Generated {
        path: page.to_owned(),
        content,
    })
}

fn yaml(value: &impl Serialize) -> Result<String> {
    // Through a JSON value: its maps are sorted, so that the same types always give the same text.
    let value = serde_json::to_value(value)?;
    Ok(format!("{HEADER}{}", serde_saphyr::to_string(&value)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_chart_installs_is_what_the_types_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for file in chart(&root.join("charts/sampledb")).unwrap() {
            let found = fs::read_to_string(&file.path).unwrap_or_default();
            assert!(
                found == file.content,
                "{} is not current: run `make crds`",
                file.path.display()
            );
        }
    }

    #[test]
    fn the_text_reads_back_as_the_same_definition() {
        let text = yaml(&crd::sampledb()).unwrap();
        let back: serde_json::Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(back, serde_json::to_value(crd::sampledb()).unwrap());
    }
}
