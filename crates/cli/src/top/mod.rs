//! `tidegate top`: shows what a running server does, live.

mod model;
mod view;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tidegate::Stopwatch;
use tidegate_wire::admin::ServerStatus;

use self::model::TopModel;
use crate::admin::client::{AdminClient, token_from_environment};
use crate::client::{OperatorCredentials, TargetServer};
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
        let credentials = OperatorCredentials {
            token: token_from_environment(),
            identity: self.cert.zip(self.key),
        };
        let client = StatusClient(AdminClient::new(self.admin, credentials)?);
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
struct StatusClient(AdminClient);

impl StatusClient {
    fn status(&self) -> anyhow::Result<ServerStatus> {
        let text = self.0.get("/status")?;
        serde_json::from_str(&text).with_context(|| self.0.unreadable())
    }

    fn wait(&self) {
        self.0.runtime().block_on(async { tokio::time::sleep(EVERY).await });
    }
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
