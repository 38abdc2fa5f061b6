//! `tidegate top`: shows what a running server does, live.

mod model;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::StatusCode;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tidegate::Stopwatch;
use tidegate_wire::admin::ServerStatus;
use tokio::runtime::Runtime;

use self::model::TopModel;
use crate::client::{OperatorCredentials, TargetServer, get};
use crate::output::print;

/// The options of `top`.
#[derive(Debug, clap::Args)]
pub(crate) struct TopCommand {
    /// The server's admin address: http://host:port, https://host:port or unix:/path.
    /// TIDEGATE_ADMIN_TOKEN may hold a token for it
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_URL",
        value_name = "URL",
        default_value = "http://127.0.0.1:9090"
    )]
    admin: TargetServer,
    /// A certificate to present to a server that asks for one, with its chain (PEM)
    #[arg(long, env = "TIDEGATE_ADMIN_CERT", value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "TIDEGATE_ADMIN_KEY", value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Watch for one second, print the result, and exit
    #[arg(long)]
    once: bool,
}

impl TopCommand {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let client = StatusClient {
            runtime: runtime.context("cannot start a runtime")?,
            server: self.admin,
            credentials: OperatorCredentials {
                token: std::env::var("TIDEGATE_ADMIN_TOKEN").ok().filter(|token| !token.is_empty()),
                identity: self.cert.zip(self.key),
            },
        };
        // Before the screen is taken over, so that an error is printed as usual.
        let mut model = TopModel::new(client.status()?, Stopwatch::start());
        if self.once {
            return show_once(&client, model);
        }
        let mut terminal = ratatui::try_init().context("cannot use this terminal")?;
        let outcome = show_live(&mut terminal, &client, &mut model);
        ratatui::restore();
        outcome.map(|()| ExitCode::SUCCESS)
    }
}

/// Fetches the status of a server from its admin listener.
struct StatusClient {
    runtime: Runtime,
    server: TargetServer,
    credentials: OperatorCredentials,
}

impl StatusClient {
    fn status(&self) -> anyhow::Result<ServerStatus> {
        let request = get(&self.server, "/admin/v1/status", &self.credentials);
        let (status, text) = self
            .runtime
            .block_on(request)
            .with_context(|| format!("cannot reach {}", self.server))?;
        match status {
            StatusCode::OK => serde_json::from_str(&text).with_context(|| {
                format!("cannot read the status of {}: is it another version?", self.server)
            }),
            StatusCode::UNAUTHORIZED if self.credentials.token.is_some() => Err(anyhow!(
                "{} does not know the token in TIDEGATE_ADMIN_TOKEN: expected one of its tokens",
                self.server
            )),
            StatusCode::UNAUTHORIZED => Err(anyhow!(
                "{} requires a token: expected it in TIDEGATE_ADMIN_TOKEN",
                self.server
            )),
            StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                Err(anyhow!("{} refused: {}", self.server, refusal(&text)))
            }
            _ => Err(anyhow!("{} answers {status}: is this its admin address?", self.server)),
        }
    }

    fn wait(&self) {
        self.runtime.block_on(async { tokio::time::sleep(EVERY).await });
    }
}

/// The server's own words.
fn refusal(text: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
    let detail = problem["detail"].as_str().unwrap_or("without a reason");
    // Control characters could be escape sequences, which a terminal executes.
    detail.chars().filter(|char| !char.is_control()).collect()
}

fn show_once(client: &StatusClient, mut model: TopModel) -> anyhow::Result<ExitCode> {
    client.wait();
    model.update(client.status(), Stopwatch::start());
    let mut terminal = Terminal::new(TestBackend::new(WIDTH, HEIGHT))?;
    terminal.draw(|frame| view::draw(frame, &model))?;
    print(&as_text(terminal.backend().buffer()))?;
    Ok(ExitCode::SUCCESS)
}

fn show_live(
    terminal: &mut ratatui::DefaultTerminal,
    client: &StatusClient,
    model: &mut TopModel,
) -> anyhow::Result<()> {
    loop {
        terminal.draw(|frame| view::draw(frame, model))?;
        let shown = Stopwatch::start();
        // Keys take effect immediately; the numbers change once a second.
        while let Some(left) = EVERY.checked_sub(Duration::from_nanos(shown.nanos())) {
            if !event::poll(left)? {
                break;
            }
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    KeyCode::Char('s') => model.sort_by_next(),
                    KeyCode::Char('p') | KeyCode::Char(' ') => model.pause(),
                    _ => {}
                },
                Event::Resize(..) => {}
                _ => continue,
            }
            terminal.draw(|frame| view::draw(frame, model))?;
        }
        if !model.is_paused() {
            model.update(client.status(), Stopwatch::start());
        }
    }
}

/// The lines of the screen, without trailing blanks.
fn as_text(buffer: &Buffer) -> String {
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let cell = |x| buffer.cell((x, y)).map_or(" ", |cell| cell.symbol());
        let line: String = (0..buffer.area.width).map(cell).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

const EVERY: Duration = Duration::from_secs(1);
const WIDTH: u16 = 80;
const HEIGHT: u16 = 24;
