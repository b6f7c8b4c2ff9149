/**
 * The commands of the daemon: `serve`, `init`, `workspaces create`. Their flags are derived from the settings table.
 * The code of a command is imported when it runs.
 */
import { rmSync } from 'node:fs'
import { Command } from 'commander'
import type { CreatedWorkspace } from '../../maintenance/data-dir.ts'
import type { Metadata } from '../../metadata/store.ts'
import { formatAddress, type LoadedSettings, loadSettings } from '../../settings/config.ts'
import {
  type SettingDefinition,
  type SettingKey,
  type Settings,
  settingDefinitions,
} from '../../settings/settings.ts'
import { addExamples } from './help.ts'
import { io } from './io.ts'

const withFlags = (settingDefinitions as readonly SettingDefinition[]).filter((one) => one.flag !== undefined)

/** `pipectl serve`: runs the daemon until SIGTERM or SIGINT. */
export function serveCommand(): Command {
  const command = new Command('serve')
    .description('run the daemon')
    .option(
      '--init',
      'set up the data directory if it is new (prints the first API key on a terminal, otherwise writes it to a file)',
    )
    .option(
      '--safe',
      'start with all destinations blocked, in memory only: records are accepted, nothing is delivered',
    )
    .option('--standby <url>', 'follow the replica s3://bucket/prefix, and take over when promoted')
    .option('--key-file <file>', 'with --standby: the sealing key of the primary')
  addSettingFlags(command)
  addExamples(command, ['pipectl serve --init --data-dir ./data --listen 127.0.0.1:8080'])
  return command.action(async (options: Record<string, unknown>) => {
    const loaded = settingsFrom(options, io().env)
    if (typeof options.standby === 'string') {
      const { runStandby } = await import('../../daemon/standby.ts')
      const keyFile = typeof options.keyFile === 'string' ? options.keyFile : null
      // Once it has taken over, it is the writer of this replica.
      loaded.settings['replica.url'] = options.standby
      await runStandby(loaded.settings, { env: io().env, url: options.standby, keyFile })
    }
    const { runDaemon } = await import('../../daemon/daemon.ts')
    await runDaemon(loaded.settings, {
      env: io().env,
      origins: loaded.origins,
      setUp: options.init === true ? () => setUpWhereNeeded(loaded.settings) : null,
      isSafe: options.safe === true,
      // Settings that can change without a restart are read again from the same sources.
      reload: () => settingsFrom(options, io().env).settings,
    })
  })
}

/** `pipectl init`: sets up a data directory and shows the first API key, once. */
export function initCommand(): Command {
  const command = new Command('init')
    .description('set up a data directory: workspace `default` and its first API key, shown once')
    .option('--json', 'print {workspace_id, workspace_name, api_key_id, api_key, setup_url}')
  addSettingFlags(command, ['data_dir'])
  addExamples(command, ['pipectl init --data-dir /var/lib/pipectl --json > first-key.json'])
  return command.action(async (options: Record<string, unknown>) => {
    const { settings } = settingsFrom(options, io().env)
    const { setUpDataDir } = await import('../../maintenance/data-dir.ts')
    printWorkspace(await setUpDataDir(settings, io().env), settings, options.json === true)
  })
}

/** `pipectl workspaces create NAME`: creates another workspace with its first key. Works while the daemon runs. */
export function workspacesCommand(): Command {
  const create = new Command('create')
    .argument('<name>', 'the workspace: 1 to 100 letters, digits, hyphens or underscores')
    .description('create a workspace and its first API key, shown once; works while the daemon runs')
    .option('--json', 'print {workspace_id, workspace_name, api_key_id, api_key, setup_url}')
  addSettingFlags(create, ['data_dir'])
  addExamples(create, ['pipectl workspaces create staging --data-dir /var/lib/pipectl'])
  create.action(async (name: string, options: Record<string, unknown>) => {
    const { settings } = settingsFrom(options, io().env)
    const { createWorkspace, openDataDirMetadata } = await import('../../maintenance/data-dir.ts')
    const { metadata } = await openDataDirMetadata(settings, io().env, { create: false })
    try {
      printWorkspace(await createWorkspace(metadata, name), settings, options.json === true)
      await explainEgress(metadata, settings)
    } finally {
      await metadata.close()
    }
  })
  return new Command('workspaces')
    .description('workspaces of a data directory')
    .addCommand(create)
    .addCommand(workspacesListCommand())
}

function workspacesListCommand(): Command {
  const list = new Command('list')
    .description('list the workspaces of a data directory; works while the daemon runs')
    .option('--json', 'print {workspaces: [{workspace_id, workspace_name}]}')
  addSettingFlags(list, ['data_dir'])
  addExamples(list, ['pipectl workspaces list --data-dir /var/lib/pipectl'])
  return list.action(async (options: Record<string, unknown>) => {
    const { settings } = settingsFrom(options, io().env)
    const { openDataDirMetadata } = await import('../../maintenance/data-dir.ts')
    const { metadata } = await openDataDirMetadata(settings, io().env, { create: false })
    try {
      const found = await metadata.workspaces.list()
      const workspaces = found.map((one) => ({
        workspace_id: one.workspaceId,
        workspace_name: one.name,
      }))
      const asText = () => workspaces.map((one) => `${one.workspace_id}  ${one.workspace_name}\n`).join('')
      io().stdout.write(options.json === true ? `${JSON.stringify({ workspaces })}\n` : asText())
    } finally {
      await metadata.close()
    }
  })
}

/** Adds `--config` and one flag per setting in `only`. Default: all settings that have a flag. */
export function addSettingFlags(command: Command, only?: readonly SettingKey[]): Command {
  command.option('-c, --config <file>', 'TOML file with settings (PIPECTL_CONFIG)')
  for (const one of withFlags) {
    if (only === undefined || only.includes(one.key as SettingKey)) {
      command.option(
        `${one.flag} <value>`,
        `${one.doc} (${one.env}${one.fallback === null ? '' : `; default ${one.fallback}`})`,
      )
    }
  }
  return command
}

/** Reads settings from a command's parsed options, the environment and the file. Throws ConfigError. */
export function settingsFrom(options: Record<string, unknown>, env: NodeJS.ProcessEnv): LoadedSettings {
  const flags: Partial<Record<SettingKey, string>> = {}
  for (const one of withFlags) {
    const value = options[camelCase(one.flag ?? '')]
    if (typeof value === 'string') flags[one.key as SettingKey] = value
  }
  const file = typeof options.config === 'string' ? options.config : undefined
  return loadSettings({ flags, env, file })
}

function camelCase(flag: string): string {
  return flag.replace(/^--/, '').replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase())
}

/**
 * Without a terminal, a journal could keep the output, and a key must not be stored there. It is written to a file.
 */
async function setUpWhereNeeded(settings: Settings): Promise<void> {
  const { AlreadySetUpError, dataDirAt, setUpDataDir, writeFirstKey, writeFirstLink } = await import(
    '../../maintenance/data-dir.ts'
  )
  const dir = dataDirAt(settings.data_dir)
  const hasTerminal = io().stderr.isTTY === true
  let isWritten = false
  try {
    const created = await setUpDataDir(settings, io().env, (apiKey) => {
      isWritten = !hasTerminal
      if (isWritten) writeFirstKey(dir, apiKey)
    })
    const setupUrl = setupUrlOf(created, settings)
    if (hasTerminal) {
      io().stderr.write(inWords(created, setupUrl))
      return
    }
    io().stderr.write(
      `Workspace ${created.workspace_name} is set up. Its first API key is in ${dir.firstKeyFile}: keep it elsewhere, then delete the file.\n`,
    )
    if (setupUrl === null) return
    writeFirstLink(dir, setupUrl)
    io().stderr.write(
      `The link that creates your dashboard account is in ${dir.firstLinkFile}. It works once, within 24 hours.\n`,
    )
  } catch (error) {
    if (!(error instanceof AlreadySetUpError)) throw error
    // Another node of the cluster was faster, so this key was never valid.
    if (isWritten) rmSync(dir.firstKeyFile, { force: true })
  }
}

const shownDestinations = 20

/**
 * Workspaces may belong to people who do not trust each other. Explains how the new workspace changes access to
 * private addresses.
 */
async function explainEgress(metadata: Metadata, settings: Settings): Promise<void> {
  const rule = settings['egress.private']
  const note = (text: string) => io().stderr.write(`${text}\n`)
  if (rule === 'allow')
    note(
      'Note: egress.private is "allow": destinations of every workspace can connect to loopback and private addresses. "auto" or "deny" prevents that; egress.allow lists exceptions.',
    )
  const { length: workspaces } = await metadata.workspaces.list()
  if (rule !== 'auto' || workspaces < 2) return
  if (workspaces > 2) {
    note('Note: egress.private is "auto": private addresses are denied to all workspaces, as before.')
    return
  }
  note(`Note: there are ${workspaces} workspaces now, and egress.private is "auto": destinations can no longer connect to loopback and private
addresses. A running daemon applies this within a second, after the running attempts.
egress.allow lists exceptions, such as 127.0.0.1:5432 for a database, and egress.private = "allow" permits all of them: both from the daemon's next start.`)
  const { deniedDestinations } = await import('../../maintenance/egress.ts')
  const denied = await deniedDestinations(metadata, settings, workspaces)
  if (denied.length === 0) return
  note(
    `Destinations that are denied now; their records wait (according to the settings given to this command):`,
  )
  for (const one of denied.slice(0, shownDestinations))
    note(`  ${one.workspace}: ${one.pipe} ${one.destinationId}`)
  if (denied.length > shownDestinations) note(`  and ${denied.length - shownDestinations} more`)
}

/** The only time that the complete first key and the first setup link are shown. */
function printWorkspace(created: CreatedWorkspace, settings: Settings, asJson: boolean): void {
  const { setup_path: _, ...shown } = created
  const setupUrl = setupUrlOf(created, settings)
  const asText = () => inWords(created, setupUrl)
  io().stdout.write(asJson ? `${JSON.stringify({ ...shown, setup_url: setupUrl })}\n` : asText())
}

/** Null: the dashboard is off. */
function setupUrlOf({ setup_path }: CreatedWorkspace, settings: Settings): string | null {
  return settings.dashboard === 'off' ? null : `${dashboardOrigin(settings)}${setup_path}`
}

/** The URL according to the settings. With port 0, the log of the daemon has the actual port. */
export function dashboardOrigin({ public_url, listen, ...settings }: Settings): string {
  if (public_url !== null) return public_url
  const host = ['0.0.0.0', '::'].includes(listen.host) ? '127.0.0.1' : listen.host
  const scheme = settings['tls.cert_file'] === null ? 'http' : 'https'
  return `${scheme}://${formatAddress({ ...listen, host })}`
}

function inWords(created: CreatedWorkspace, setupUrl: string | null): string {
  return (
    `Workspace  ${created.workspace_name}  (${created.workspace_id})\n` +
    `API key    ${created.api_key}\n` +
    '           This key is shown once and cannot be shown again: keep it now.\n' +
    `           export PIPECTL_API_KEY=${created.api_key}\n` +
    '           It can do everything. Give an app a key that can only send: pipectl keys create APP --scope ingest --pipe PIPE\n' +
    (setupUrl === null
      ? ''
      : `Dashboard  ${setupUrl}\n           Creates your account: once, within 24 hours. For another link: \`pipectl users setup-link\`\n`)
  )
}
