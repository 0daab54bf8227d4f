//! The file of a verification's findings.

use std::fs;
use std::path::Path;

use afterwrite_model::{Error, ErrorKind, Result};
use afterwrite_operations::verify::{
    FindingsReport, ReportExtent, UNFINISHED_REPORT, VerifyFinding, parse_findings,
};

use crate::print::tell;

/// Checks that the file can be written, and replaces the report of an earlier run there: if this run fails, no repair may take the earlier report
/// for the report of this run. A device or a pipe is left alone until the end.
pub(super) fn begin_report(file: &Path) -> Result<()> {
    match fs::metadata(file) {
        Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
        Ok(_) | Err(_) => write_report(file, UNFINISHED_REPORT),
    }
}

/// Writes the report. The file keeps its permissions, and a link to it stays.
pub(super) fn write_report(file: &Path, findings: &str) -> Result<()> {
    fs::write(file, findings).map_err(|error| not_written(file, error))
}

/// The absolute path of a report: the job may be resumed in another folder.
pub(super) fn absolute(file: &Path) -> Result<String> {
    let absolute = std::path::absolute(file).map_err(|error| not_written(file, error))?;
    Ok(absolute.display().to_string())
}

fn not_written(file: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Configuration, "the report cannot be written")
        .with("file", file.display().to_string())
        .caused_by(error)
}

/// The findings of a file.
///
/// # Errors
/// The file cannot be read; as [`parse_findings`].
pub(crate) fn read_findings(file: &Path) -> Result<Vec<VerifyFinding>> {
    findings_in(&report_text(file)?, file)
}

/// The text of a report.
pub(super) fn report_text(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| {
        Error::new(ErrorKind::Configuration, "the findings cannot be read")
            .with("file", file.display().to_string())
            .caused_by(error)
    })
}

/// The findings in the text of a file.
pub(super) fn findings_in(text: &str, file: &Path) -> Result<Vec<VerifyFinding>> {
    let file = file.display().to_string();
    let FindingsReport { findings, extent } =
        parse_findings(text).map_err(|error| error.with("file", file.as_str()))?;
    if extent == ReportExtent::Unknown {
        tell(&format!(
            "{file} does not name the number of its findings: an earlier version has written it, or it was cut or edited. It is not known to be whole"
        ));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_that_is_begun_is_no_list_of_findings() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("drift.jsonl");
        begin_report(&file).unwrap();
        let error = parse_findings(&fs::read_to_string(&file).unwrap()).unwrap_err();
        assert!(error.to_string().contains("has not finished"), "{error}");
        write_report(&file, "").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
        for unwritable in [folder.path().join("missing/drift.jsonl"), folder.path().to_owned()] {
            assert_eq!(begin_report(&unwritable).unwrap_err().kind(), ErrorKind::Configuration);
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_are_written_through() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::write(&file, "earlier").unwrap();
        for (target, is_file) in [(file.as_path(), true), (Path::new("/dev/null"), false)] {
            let _ = fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
            begin_report(&link).unwrap();
            write_report(&link, "found\n").unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), target);
            assert_eq!(fs::metadata(&link).unwrap().is_file(), is_file);
        }
        assert_eq!(fs::read_to_string(&file).unwrap(), "found\n");
    }
}
