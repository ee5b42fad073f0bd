//! Which images a database runs: resolved once, kept until `spec.postgres` asks for others.

use std::collections::BTreeMap;

use sampledb_shared::api::SampleDb;
use sampledb_shared::api::provisioning::Images;
use sampledb_shared::domain::names::CATALOG;
use serde::Deserialize;

use crate::settings::Settings;

/// One entry of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct CatalogEntry {
    /// The image.
    pub image: String,
    /// The PostgreSQL version in it ("17.12").
    pub version: String,
}

/// The catalogue, by major version; entries that cannot be read are kept as their error.
pub type Catalog = BTreeMap<String, Result<CatalogEntry, String>>;

/// Reads the data of the ConfigMap `sampledb-catalog`.
pub fn catalog(data: &BTreeMap<String, String>) -> Catalog {
    data.iter()
        .map(|(major, text)| {
            (
                major.clone(),
                serde_saphyr::from_str(text).map_err(|e| e.to_string()),
            )
        })
        .collect()
}

/// Why there is no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The catalogue does not have it.
    #[error("{0}")]
    NotFound(String),
    /// The chart does not allow it.
    #[error(
        "spec.postgres.image {0:?} is not among the images that the chart's postgres.allowedImages allows ({1}): add it there, or leave the field out to use the catalogue"
    )]
    NotAllowed(String, String),
}

/// What `spec.postgres` asks for, as it is remembered beside the images.
pub fn wish(db: &SampleDb) -> String {
    let postgres = &db.spec.postgres;
    match &postgres.image {
        Some(image) => format!("{} {image}", postgres.version),
        None => postgres.version.clone(),
    }
}

/// The images that were resolved before for the same wish, or else new ones.
pub fn resolve(
    db: &SampleDb,
    before: Option<&Images>,
    catalog: Option<&Catalog>,
    settings: &Settings,
) -> Result<Images, Unresolved> {
    let wish = wish(db);
    if let Some(kept) = before.filter(|images| images.resolved_for == wish) {
        return Ok(kept.clone());
    }
    let postgres = match &db.spec.postgres.image {
        Some(image)
            if settings
                .allowed_images
                .iter()
                .any(|pattern| matches(pattern, image)) =>
        {
            image.clone()
        }
        Some(image) => {
            let allowed = &settings.allowed_images;
            let allowed = if allowed.is_empty() {
                "none".to_owned()
            } else {
                allowed.join(", ")
            };
            return Err(Unresolved::NotAllowed(image.clone(), allowed));
        }
        None => from_catalog(&db.spec.postgres.version, catalog)?,
    };
    Ok(Images {
        resolved_for: wish,
        postgres,
        instance: settings.instance_image.clone(),
    })
}

fn from_catalog(version: &str, catalog: Option<&Catalog>) -> Result<String, Unresolved> {
    let Some(catalog) = catalog else {
        return Err(Unresolved::NotFound(format!(
            "the ConfigMap {CATALOG} with the images is not in the release namespace: the chart makes it"
        )));
    };
    let major = version.split('.').next().unwrap_or(version);
    let there = || {
        let known = catalog
            .iter()
            .filter_map(|(major, entry)| Some(format!("{major} ({})", entry.as_ref().ok()?.version)));
        let known: Vec<_> = known.collect();
        if known.is_empty() {
            "nothing".to_owned()
        } else {
            known.join(", ")
        }
    };
    match catalog.get(version).or_else(|| catalog.get(major)) {
        Some(Ok(entry)) if version == major || entry.version == version => Ok(entry.image.clone()),
        Some(Err(error)) => Err(Unresolved::NotFound(format!(
            "the entry for {major} in the ConfigMap {CATALOG} cannot be read: {error}"
        ))),
        _ => Err(Unresolved::NotFound(format!(
            "spec.postgres.version {version} is not in the catalogue, which has {}: choose one of these, or add an image to the chart's catalogue",
            there()
        ))),
    }
}

/// Whether `text` is `pattern`, where `*` stands for any characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| text.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::testing;

    #[rstest]
    #[case("registry/pg:17", "registry/pg:17", true)]
    #[case("registry/pg:17", "registry/pg:171", false)]
    #[case("registry/*", "registry/pg@sha256:0", true)]
    #[case("registry/*", "other/registry/pg", false)]
    #[case("registry/*:17", "registry/pg:16", false)]
    #[case("*", "anything", true)]
    #[case("", "anything", false)]
    #[case("a*b*b", "ab", false)]
    fn an_image_outside_the_allowed_ones_never_runs(
        #[case] pattern: &str,
        #[case] image: &str,
        #[case] allowed: bool,
    ) {
        assert_eq!(matches(pattern, image), allowed);
    }

    #[test]
    fn a_new_catalogue_changes_no_running_database() {
        let db = testing::db();
        let first = resolve(&db, None, Some(&testing::catalog()), &testing::settings()).unwrap();
        let newer = BTreeMap::from([(
            "17".to_owned(),
            Ok(CatalogEntry {
                image: "pg:17.99".into(),
                version: "17.99".into(),
            }),
        )]);
        let settings = Settings {
            instance_image: "suite:2".into(),
            ..testing::settings()
        };
        assert_eq!(
            resolve(&db, Some(&first), Some(&newer), &settings),
            Ok(first.clone())
        );

        let mut pinned = db.clone();
        pinned.spec.postgres.version = "17.99".into();
        let second = resolve(&pinned, Some(&first), Some(&newer), &settings).unwrap();
        assert_eq!(
            (second.postgres.as_str(), second.instance.as_str()),
            ("pg:17.99", "suite:2")
        );
    }

    #[test]
    fn a_version_that_is_not_there_is_answered_with_those_that_are() {
        let mut db = testing::db();
        db.spec.postgres.version = "17.3".into();
        let error = resolve(&db, None, Some(&testing::catalog()), &testing::settings())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("17.3 is not in the catalogue, which has 17 (17.12)"),
            "{error}"
        );
        db.spec.postgres.image = Some("evil/pg:17".into());
        let error = resolve(&db, None, None, &testing::settings())
            .unwrap_err()
            .to_string();
        assert!(error.contains("allowedImages"), "{error}");
    }

    #[test]
    fn the_catalogue_is_read_from_yaml_and_from_json() {
        let data = BTreeMap::from([
            (
                "17".to_owned(),
                r#"{"image": "pg:17", "version": "17.12"}"#.to_owned(),
            ),
            ("15".to_owned(), "image: pg:15\nversion: \"15.10\"\n".to_owned()),
            ("14".to_owned(), "nonsense".to_owned()),
        ]);
        let catalog = catalog(&data);
        assert_eq!(
            catalog["15"],
            Ok(CatalogEntry {
                image: "pg:15".into(),
                version: "15.10".into()
            })
        );
        assert_eq!(catalog["17"].as_ref().map(|e| e.version.as_str()), Ok("17.12"));
        assert!(catalog["14"].is_err());
    }
}
