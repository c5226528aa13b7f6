//! The state of the screen: received data, and the user's choices.

use pintle_core::overview::{Overview, PluginOverview};
use pintle_sources::wire::PluginDetail;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::columns::Column;

/// Longest filter.
const MAX_FILTER_CHARS: usize = 63;
/// Rows of a page up or down.
const PAGE: usize = 10;

/// The next action after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Continue.
    Stay,
    /// Query the host now, because another plugin is shown.
    Ask,
    /// Quit.
    Quit,
}

/// The part of the screen shown besides the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Nothing.
    #[default]
    Table,
    /// The filter is being typed.
    Filter,
    /// Help for the keys.
    Help,
    /// One plugin.
    Detail(String),
}

#[derive(Debug)]
pub(super) struct App {
    pub(super) overview: Option<Overview>,
    pub(super) detail: Option<PluginDetail>,
    /// Why the last request to the host failed.
    pub(super) problem: Option<String>,
    pub(super) sort: Column,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The name of the plugin under the cursor.
    pub(super) selected: Option<String>,
    pub(super) mode: Mode,
    pub(super) colors: bool,
}

impl App {
    pub(super) fn new(colors: bool) -> Self {
        Self {
            overview: None,
            detail: None,
            problem: None,
            sort: Column::Name,
            reversed: false,
            filter: String::new(),
            selected: None,
            mode: Mode::Table,
            colors,
        }
    }

    /// The plugin with visible details.
    pub(super) fn wants(&self) -> Option<&str> {
        match &self.mode {
            Mode::Detail(name) => Some(name),
            _ => None,
        }
    }

    /// Processes a response of the host.
    pub(super) fn receive(&mut self, answer: Result<(Overview, Option<PluginDetail>), String>) {
        match answer {
            Ok((overview, detail)) => {
                self.problem = None;
                self.overview = Some(overview);
                // A late response about another plugin.
                self.detail = detail.filter(|detail| self.wants() == Some(&*detail.plugin.name));
            }
            Err(why) => self.problem = Some(why),
        }
    }

    /// The plugins in display order.
    pub(super) fn rows(&self) -> Vec<&PluginOverview> {
        let plugins = self.overview.iter().flat_map(|overview| &overview.plugins);
        let mut rows: Vec<&PluginOverview> = plugins.filter(|plugin| plugin.name.contains(&self.filter)).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        // Stable: equal ones stay sorted by name.
        rows.sort_by(|a, b| {
            let order = self.sort.compare(a, b);
            if self.descends() { order.reverse() } else { order }
        });
        if self.sort == Column::Name && self.reversed {
            rows.reverse();
        }
        rows
    }

    /// Whether the order is descending.
    pub(super) fn descends(&self) -> bool {
        self.sort.is_number() != self.reversed
    }

    /// The row of the cursor; the first row if its plugin was unloaded.
    pub(super) fn cursor(&self) -> Option<usize> {
        let rows = self.rows();
        let at = rows.iter().position(|plugin| Some(&plugin.name) == self.selected.as_ref());
        at.or((!rows.is_empty()).then_some(0))
    }

    fn move_to(&mut self, row: impl FnOnce(usize, usize) -> usize) {
        let n_rows = self.rows().len();
        let Some(at) = self.cursor() else { return };
        self.selected = self.rows().get(row(at, n_rows - 1).min(n_rows - 1)).map(|plugin| plugin.name.clone());
    }

    pub(super) fn handle(&mut self, event: &Event) -> Flow {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => self.key(*key),
            _ => Flow::Stay,
        }
    }

    fn key(&mut self, key: KeyEvent) -> Flow {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if matches!(key.code, KeyCode::Char('c' | 'C')) { Flow::Quit } else { Flow::Stay };
        }
        if self.mode == Mode::Filter {
            self.edit(key.code);
            return Flow::Stay;
        }
        match key.code {
            KeyCode::Char('q') => return Flow::Quit,
            KeyCode::Char('?') => self.mode = if self.mode == Mode::Help { Mode::Table } else { Mode::Help },
            KeyCode::Esc => match self.mode {
                Mode::Table => self.filter.clear(),
                _ => self.mode = Mode::Table,
            },
            KeyCode::Enter => {
                if let (Mode::Table, Some(name)) = (&self.mode, self.cursor().map(|at| self.rows()[at].name.clone())) {
                    self.detail = None;
                    self.selected = Some(name.clone());
                    self.mode = Mode::Detail(name);
                    return Flow::Ask;
                }
                self.mode = Mode::Table;
            }
            _ if self.mode != Mode::Table => {}
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char('r') => self.reversed = !self.reversed,
            KeyCode::Left => self.sort_by(Column::ALL.len() - 1),
            KeyCode::Right | KeyCode::Char('s') => self.sort_by(1),
            KeyCode::Up | KeyCode::Char('k') => self.move_to(|at, _| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.move_to(|at, _| at + 1),
            KeyCode::PageUp => self.move_to(|at, _| at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.move_to(|at, _| at + PAGE),
            KeyCode::Home => self.move_to(|_, _| 0),
            KeyCode::End => self.move_to(|_, last| last),
            _ => {}
        }
        Flow::Stay
    }

    /// Sorts by the column this many columns to the right.
    fn sort_by(&mut self, right: usize) {
        let at = Column::ALL.iter().position(|column| *column == self.sort).unwrap_or(0);
        self.sort = Column::ALL[(at + right) % Column::ALL.len()];
        self.reversed = false;
    }

    fn edit(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.mode = Mode::Table,
            KeyCode::Esc => {
                self.filter.clear();
                self.mode = Mode::Table;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER_CHARS => {
                self.filter.extend(c.to_lowercase());
            }
            _ => {}
        }
    }
}
