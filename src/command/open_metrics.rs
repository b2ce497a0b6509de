//! Numbers for programs that watch, in the format of OpenMetrics, by the library of its own people.

use crate::error::{Error, Kind};
use crate::exit::{Exit, Status};
use crate::report::Report;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// The labels of one series.
pub(super) type SeriesLabels = Vec<(String, String)>;

/// What is printed at once.
pub(super) struct Exposition(Registry);

impl Exposition {
    /// Every name of a metric begins with `prefix`.
    pub(super) fn new(prefix: &str) -> Self {
        Self(Registry::with_prefix(prefix))
    }

    /// A gauge with one series for each set of labels.
    pub(super) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        series: impl IntoIterator<Item = (SeriesLabels, u64)>,
    ) {
        let family = Family::<SeriesLabels, Gauge>::default();
        for (labels, number) in series {
            family.get_or_create(&labels).set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        match unit {
            Some(unit) => self.0.register_with_unit(name, help, unit, family),
            None => self.0.register(name, help, family),
        }
    }

    /// Prints all of it.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn print(&self, report: &Report) -> Result<Status, Error> {
        let mut text = String::new();
        encode(&mut text, &self.0).map_err(|_| Error::new(Kind::Bug, "the metrics could not be encoded"))?;
        report.or_broken_pipe(report.data(text.trim_end()))?;
        Ok(Exit::Ok.into())
    }
}
