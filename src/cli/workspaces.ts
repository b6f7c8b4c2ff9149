/** `pipectl workspaces create NAME`: a further workspace with its first key; works while the daemon runs. */
import { Command } from 'commander'
import { addSettingFlags, settingsFrom } from './settings-flags.ts'
import { printWorkspace } from './workspace-output.ts'

export function workspacesCommand(): Command {
  const create = new Command('create')
    .argument('<name>', 'the workspace: 1 to 100 letters, digits, hyphens or underscores')
    .description('create a workspace and its first API key, shown once; works while the daemon runs')
    .option('--json', 'print {workspace_id, workspace_name, api_key_id, api_key}')
    .addHelpText('after', '\nExample:\n  pipectl workspaces create staging --data-dir /var/lib/pipectl')
  addSettingFlags(create, ['data_dir'])
  create.action(async (name: string, options: Record<string, unknown>) => {
    const { settings } = settingsFrom(options, process.env)
    const { createWorkspace, openDataDirMetadata } = await import('../data-dir.ts')
    const { metadata } = await openDataDirMetadata(settings, process.env, false)
    try {
      printWorkspace(await createWorkspace(metadata, name), options.json === true)
    } finally {
      await metadata.close()
    }
  })
  return new Command('workspaces').description('workspaces of a data directory').addCommand(create)
}
