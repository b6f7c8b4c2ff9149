/** `pipectl init`: sets up a data directory and shows the first API key, once. */
import { Command } from 'commander'
import { addSettingFlags, settingsFrom } from './settings-flags.ts'
import { printWorkspace } from './workspace-output.ts'

export function initCommand(): Command {
  const command = new Command('init')
    .description('set up a data directory: workspace `default` and its first API key, shown once')
    .option('--json', 'print {workspace_id, workspace_name, api_key_id, api_key}')
    .addHelpText('after', '\nExample:\n  pipectl init --data-dir /var/lib/pipectl --json > first-key.json')
  addSettingFlags(command, ['data_dir'])
  return command.action(async (options: Record<string, unknown>) => {
    const { settings } = settingsFrom(options, process.env)
    const { setUpDataDir } = await import('../data-dir.ts')
    printWorkspace(await setUpDataDir(settings, process.env), options.json === true)
  })
}
