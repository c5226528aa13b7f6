//! Frames on an in-memory terminal.

use expect_test::{Expect, expect};
use pintle_core::overview::{ElectionOverview, Overview};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::app::{App, Flow};
use super::{text, view};

fn plugin(name: &str, phase: &str, ready: usize, rate: f64, faults: u64) -> Value {
    json!({
        "name": name, "phase": phase, "version": "1.2.0", "workers": 5, "runsPerSecond": rate, "faults": faults,
        "queue": {"ready": ready, "delayed": 1, "held": 0, "running": 2},
        "runs": {"success": 100, "requeueAfter": 5, "error": 2, "terminalError": 0, "fault": faults},
        "latency": {"p50Seconds": 0.0021, "p90Seconds": 0.004, "p99Seconds": 0.34},
        "instances": 1, "instanceBytes": 1_048_576, "cachedBytes": 2_097_152, "cachedObjects": 300, "heldBytes": 10,
        "memoryBytes": 3_145_738,
    })
}

fn overview() -> Overview {
    let mut broken = plugin("widgets", "Quarantined", 40, 0.25, 7);
    broken["problem"] = "Quarantined: too many faults".into();
    broken["latency"] = Value::Null;
    let overview = json!({
        "at": "2026-11-03T04:05:06.000000Z",
        "host": {
            "version": "0.1.0", "upSeconds": 4000, "residentBytes": 125_829_120, "leads": true,
            "elections": [{"lease": "kube-system/pintle", "identity": "node-1_a", "holder": "node-1_a", "leads": true}],
        },
        "plugins": [plugin("deployment-controller", "Running", 0, 12.34, 0), plugin("a-much-longer-name-controller", "Running", 3, 0.0, 0), broken],
    });
    serde_json::from_value(overview).unwrap()
}

fn app() -> App {
    let mut app = App::new(true);
    app.receive(Ok((overview(), None)));
    app
}

fn press(app: &mut App, keys: &[KeyCode]) -> Vec<Flow> {
    keys.iter().map(|key| app.handle(&Event::Key(KeyEvent::from(*key)))).collect()
}

fn frame(app: &App, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, app)).unwrap();
    let buffer = terminal.backend().buffer();
    let rows = buffer.content.chunks(usize::from(width));
    let rows = rows.map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned());
    rows.collect::<Vec<_>>().join("\n")
}

fn shows(app: &App, width: u16, height: u16, expected: &Expect) {
    expected.assert_eq(&frame(app, width, height));
}

/// The names of the plugins, from top to bottom.
fn order(app: &App) -> Vec<&str> {
    app.rows().iter().map(|plugin| plugin.name.split('-').next().unwrap()).collect()
}

#[test]
fn the_table_shows_the_host_and_its_plugins() {
    shows(
        &app(),
        120,
        9,
        &expect![[r#"
            Pintle 0.1.0   up 66m   memory 120MiB   API server answers
            Leads kube-system/pintle as node-1_a
            3 plugins   runs/s 12.6   queued 43   running 6   delayed 3   held 0   faults 7
              NAME▲                               PHASE          QUEUED  HELD  RUNNING  RUNS/S  MEDIAN   P99  FAILED  FAULTS  MEMORY
            > a-much-longer-name-controller       Running             3     0      2/5       0   2.1ms 340ms       2       0  3.0MiB
              deployment-controller               Running             0     0      2/5    12.3   2.1ms 340ms       2       0  3.0MiB
              widgets                             Quarantined !      40     0      2/5    0.25       -     -       9       7  3.0MiB

            Enter detail   Left/Right sort   r reverse   / filter   ? keys   q quit"#]],
    );
}

#[test]
fn a_narrow_terminal_shows_what_matters_most() {
    shows(
        &app(),
        60,
        8,
        &expect![[r#"
            Pintle 0.1.0   up 66m   memory 120MiB   API server answers
            Leads kube-system/pintle as node-1_a
            3 plugins   runs/s 12.6   queued 43   running 6   delayed 3
              NAME▲                PHASE          QUEUED  RUNS/S  FAULTS
            > a-much-longer-name-c Running             3       0       0
              deployment-controlle Running             0    12.3       0
              widgets              Quarantined !      40    0.25       7
            Enter detail   Left/Right sort   r reverse   / filter   ? ke"#]],
    );
    shows(
        &app(),
        24,
        5,
        &expect![[r#"
            Leads kube-system/pintle
              NAME▲
            > a-much-longer-name-con
              deployment-controller
            Enter detail   Left/Righ"#]],
    );
    for (width, height) in [(1, 1), (3, 2), (300, 100), (20, 1)] {
        frame(&app(), width, height);
    }
}

#[test]
fn a_standby_says_who_leads() {
    let role = |elections: Vec<ElectionOverview>| {
        let mut overview = overview();
        overview.host.elections = elections;
        text(&overview).lines().nth(1).unwrap().to_owned()
    };
    let election = |holder: Option<&str>| ElectionOverview {
        lease: "kube-system/pintle".into(),
        identity: "node-1_a".into(),
        holder: holder.map(str::to_owned),
        leads: false,
    };
    assert_eq!(role(vec![election(Some("node-2_b"))]), "On standby for kube-system/pintle: node-2_b leads");
    assert_eq!(role(vec![election(Some(""))]), "On standby for kube-system/pintle: nobody leads");
    assert_eq!(role(vec![election(None)]), "On standby for kube-system/pintle: the Lease was not read yet");
    assert_eq!(role(vec![]), "No leader election: this host works alone");
}

#[test]
fn keys_sort_reverse_and_filter() {
    let mut app = app();
    assert_eq!(order(&app), ["a", "deployment", "widgets"]);
    press(&mut app, &[KeyCode::Char('r')]);
    assert_eq!(order(&app), ["widgets", "deployment", "a"]);
    // PHASE, READY: the largest first.
    press(&mut app, &[KeyCode::Right]);
    assert_eq!(order(&app), ["widgets", "a", "deployment"]);
    press(&mut app, &[KeyCode::Right]);
    assert_eq!(order(&app), ["widgets", "a", "deployment"]);
    press(&mut app, &[KeyCode::Char('r')]);
    assert_eq!(order(&app), ["deployment", "a", "widgets"]);
    // Around the end: MEMORY, where all are equal.
    press(&mut app, &[KeyCode::Left; 3]);
    assert_eq!(order(&app), ["a", "deployment", "widgets"]);
    assert!(frame(&app, 120, 9).contains("MEMORY▼"));
    press(&mut app, &[KeyCode::Char('/'), KeyCode::Char('D'), KeyCode::Char('q')]);
    assert_eq!(order(&app), [""; 0]);
    assert!(frame(&app, 120, 9).contains("Filter: dq_"), "a letter of the filter is not a command");
    press(&mut app, &[KeyCode::Backspace, KeyCode::Enter]);
    assert_eq!(order(&app), ["deployment", "widgets"]);
    press(&mut app, &[KeyCode::Esc]);
    assert_eq!(order(&app).len(), 3);
    assert_eq!(press(&mut app, &[KeyCode::Char('q')]), [Flow::Quit]);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(app.handle(&Event::Key(interrupt)), Flow::Quit);
}

#[test]
fn the_cursor_stays_on_its_plugin() {
    let mut app = app();
    press(&mut app, &[KeyCode::Down]);
    assert_eq!(app.selected.as_deref(), Some("deployment-controller"));
    press(&mut app, &[KeyCode::Char('r')]);
    assert_eq!(app.cursor(), Some(1));
    press(&mut app, &[KeyCode::End]);
    assert_eq!(app.cursor(), Some(2));
    press(&mut app, &[KeyCode::PageUp, KeyCode::Up]);
    assert_eq!(app.cursor(), Some(0));
    // Its plugin was unloaded.
    let mut overview = overview();
    overview.plugins.truncate(1);
    app.receive(Ok((overview, None)));
    assert_eq!(app.cursor(), Some(0));
    app.receive(Ok((Overview::default(), None)));
    assert_eq!(app.cursor(), None);
    press(&mut app, &[KeyCode::Down, KeyCode::End, KeyCode::Enter]);
    assert!(frame(&app, 80, 9).contains("No plugins are loaded."));
}

#[test]
fn a_plugin_is_shown_in_detail() {
    let mut app = app();
    press(&mut app, &[KeyCode::End]);
    assert_eq!(press(&mut app, &[KeyCode::Enter]), [Flow::Ask]);
    assert_eq!(app.wants(), Some("widgets"));
    let mut plugin = serde_json::to_value(&overview().plugins[2]).unwrap();
    plugin["lastError"] = "trap: \u{1b}[31mred\nnext line".into();
    let detail = json!({
        "plugin": plugin,
        "series": {
            "secondsAgo": [15.0, 10.0, 5.0], "runsPerSecond": [1.0, 4.0, 2.0], "faultsPerSecond": [0.0, 0.0, 0.0], "ready": [1, 1, 1],
            "running": [1, 1, 1], "p50Seconds": [null, 0.001, null], "p99Seconds": [null, 0.002, null], "memoryBytes": [1, 1, 1],
        },
        "queues": [{"name": "widgets", "ready": 40, "delayed": 0, "running": 1, "held": 0, "workers": 5, "keys": [
            {"key": "v1/Widget default/a", "state": "running", "forMs": 1500, "failures": 2, "faults": 1},
            {"key": "v1/Widget default/b", "state": "delayed", "afterMs": 20, "failures": 0, "faults": 0},
            {"key": "v1/Widget default/c", "state": "ready", "forMs": 20, "failures": 0, "faults": 0},
        ]}],
    });
    app.receive(Ok((overview(), Some(serde_json::from_value(detail).unwrap()))));
    shows(
        &app,
        90,
        24,
        &expect![[r#"
            Pintle 0.1.0   up 66m   memory 120MiB   API server answers
            Leads kube-system/pintle as node-1_a
            3 plugins   runs/s 12.6   queued 43   running 6   delayed 3   held 0   faults 7
            Plugin      widgets 1.2.0
            Phase       Quarantined
            Problem     Quarantined: too many faults
            Runs        105 good, 9 failed (2 errors, 0 terminal, 7 faults)
            Latency     median -, P90 -, P99 -
            Memory      1 instances 1.0MiB, 300 cached objects 2.0MiB, for runs 10B
            Last error  trap: \u{1b}[31mred\nnext line
            Runs/s now 2.00, highest 4.00                 P99 now -, highest 2.0ms
             █                                             █
             █▄                                            █
            ▆██                                            █
            STATE          FOR  FAILURES  KEY (3 of 41)
            running       1.5s         3  v1/Widget default/a
            delayed    in 20ms         0  v1/Widget default/b
            queued        20ms         0  v1/Widget default/c





            Esc back   q quit   ? keys"#]],
    );
    frame(&app, 10, 3);
    press(&mut app, &[KeyCode::Esc]);
    assert!(frame(&app, 80, 9).contains("deployment-controller"));
    assert_eq!(app.wants(), None);
}

#[test]
fn a_host_that_does_not_answer_is_reported_with_its_last_values() {
    let mut app = App::new(false);
    assert!(frame(&app, 80, 9).contains("Waiting for the host to answer..."));
    app.receive(Err("cannot reach a Pintle host".into()));
    shows(
        &app,
        80,
        6,
        &expect![[r#"

        cannot reach a Pintle host. Trying again.



        Enter detail   Left/Right sort   r reverse   / filter   ? keys   q quit"#]],
    );
    app.receive(Ok((overview(), None)));
    app.receive(Err("the host that listened at x has ended".into()));
    let shown = frame(&app, 100, 9);
    assert!(shown.contains("has ended. These are the values of 04:05:06 UTC; trying again."), "{shown}");
    assert!(shown.contains("deployment-controller"), "{shown}");
    app.receive(Ok((overview(), None)));
    assert!(!frame(&app, 100, 9).contains("has ended"));
}

#[test]
fn without_colours_nothing_has_one() {
    let colors = |colors: bool| {
        let mut app = app();
        app.colors = colors;
        app.problem = Some("x".into());
        let mut terminal = Terminal::new(TestBackend::new(120, 20)).unwrap();
        terminal.draw(|frame| view::draw(frame, &app)).unwrap();
        let is_colored = |cell: &ratatui::buffer::Cell| cell.fg != ratatui::style::Color::Reset;
        terminal.backend().buffer().content.iter().filter(|cell| is_colored(cell)).count()
    };
    assert!(colors(true) > 10);
    assert_eq!(colors(false), 0);
}

#[test]
fn the_plain_table_has_all_columns() {
    expect![[r#"
        Pintle 0.1.0   up 66m   memory 120MiB   API server answers
        Leads kube-system/pintle as node-1_a
        3 plugins   runs/s 12.6   queued 43   running 6   delayed 3   held 0   faults 7

        NAME                            PHASE           QUEUED   DELAYED   HELD   RUNNING   RUNS/S   MEDIAN   P99     FAILED   FAULTS   MEMORY
        deployment-controller           Running         0        1         0      2/5       12.3     2.1ms    340ms   2        0        3.0MiB
        a-much-longer-name-controller   Running         3        1         0      2/5       0        2.1ms    340ms   2        0        3.0MiB
        widgets                         Quarantined !   40       1         0      2/5       0.25     -        -       9        7        3.0MiB"#]].assert_eq(&text(&overview()));
}
