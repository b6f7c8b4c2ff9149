/** `pipectl serve`: runs the daemon until SIGTERM or SIGINT. */
import { Command } from 'commander'
import type { Settings } from '../settings.ts'
import { addSettingFlags, settingsFrom } from './settings-flags.ts'
import { printWorkspace } from './workspace-output.ts'

export function serveCommand(): Command {
  const command = new Command('serve')
    .description('run the daemon')
    .option('--init', 'set up the data directory first where needed (prints the first API key once)')
    .addHelpText('after', '\nExample:\n  pipectl serve --init --data-dir ./data --listen 127.0.0.1:8080')
  addSettingFlags(command)
  return command.action(async (options: Record<string, unknown>) => {
    const loaded = settingsFrom(options, process.env)
    if (options.init === true) await setUpWhereNeeded(loaded.settings)
    const { runDaemon } = await import('../daemon.ts')
    await runDaemon(loaded.settings, {
      env: process.env,
      // What can change without a restart is read again from the same sources.
      reload: () => settingsFrom(options, process.env).settings,
    })
  })
}

async function setUpWhereNeeded(settings: Settings): Promise<void> {
  const { AlreadySetUpError, setUpDataDir } = await import('../data-dir.ts')
  try {
    printWorkspace(await setUpDataDir(settings, process.env), false)
  } catch (error) {
    if (!(error instanceof AlreadySetUpError)) throw error
  }
}
