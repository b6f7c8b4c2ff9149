/** `pipectl doctor`, `backup`, `restore`, `secrets …`: work on a data directory and its host, not through the API. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import type { DatedBackup } from '../../maintenance/dated-backups.ts'
import type { LostSecrets } from '../../maintenance/secrets.ts'
import { bytes, counted, duration } from '../../platform/quantities.ts'
import type { Settings } from '../../settings/settings.ts'
import { commandFailure, notFoundFailure, nothingToDoFailure, usageFailure } from '../client/failure.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { daemonSettings, singleMachineSettings } from './daemon-settings.ts'
import { define, group } from './define.ts'
import { io } from './io.ts'
import { requireMoment } from './moment.ts'
import { print } from './output.ts'
import { withByteProgress } from './progress.ts'
import { addRepairCommand } from './repair.ts'
import { confirm, say } from './terminal.ts'
import { addVerifyCommand } from './verify.ts'

export function addDataDirCommands(program: Command): void {
  addDoctorCommand(program)
  addVerifyCommand(program)
  addRepairCommand(program)
  addBackupCommands(program)
  addSecretsCommands(program)
}

function addDoctorCommand(program: Command): void {
  define(program, {
    usage: 'doctor',
    summary:
      'check settings, disk, fsync time, buffer, keys, geo file, ports, limits and Node.js of this host, and suggest what to do',
    help: 'Run it on the host of the daemon, as its user and with its settings. Exit code 1 when a check fails.',
    examples: [
      'pipectl doctor --config /etc/pipectl/pipectl.toml',
      'pipectl doctor --data-dir /var/lib/pipectl -o json',
    ],
    output: true,
    options: (command) => addSettingFlags(command),
    action: async (_, options) => {
      const settings = daemonSettings(options)
      const { diagnose } = await import('../../maintenance/doctor.ts')
      const checks = [
        { name: 'settings', result: 'ok', detail: 'are valid', next: '' },
        ...(await diagnose(settings, io().env)),
      ]
      const view = {
        json: JSON.stringify({ checks }),
        items: () => checks.map((one) => JSON.stringify(one)),
        names: () => checks.filter((one) => one.result !== 'ok').map((one) => one.name),
        table: () => ({
          columns: ['CHECK', 'RESULT', { label: 'DETAIL', wraps: true }],
          rows: checks.flatMap((one) => [
            [one.name, one.result, one.detail],
            ...(one.next === '' ? [] : [['', '', `→ ${one.next}`]]),
          ]),
        }),
      }
      await print(view, options.output)
      const failed = checks.filter((one) => one.result === 'fail')
      if (failed.length === 0) return
      throw commandFailure(
        `${failed.length} of ${checks.length} checks failed: ${failed.map((one) => one.name).join(', ')}`,
        'do what the output suggests for each, then run doctor again',
      )
    },
  })
}

function addBackupCommands(program: Command): void {
  define<{ includeKey?: boolean; keep?: string }>(program, {
    usage: 'backup <file>',
    summary: 'copy a data directory into one file, also while the daemon runs',
    help: `Contains every message that was acknowledged before the start. Run it on the daemon's host, as its user. The file is
a tar archive (gzip), readable only by its owner. Without --include-key, keep the sealing key elsewhere: the stored
secrets of destinations cannot be decrypted without it.

With --keep, FILE is a directory. The backup gets a name with its time, and the oldest backups of the same data
directory beyond COUNT are removed after it is complete. No other file is removed, and a backup that fails
removes nothing.`,
    examples: [
      'pipectl backup --data-dir /var/lib/pipectl pipectl-backup.tar.gz',
      'pipectl backup --data-dir /var/lib/pipectl --keep 7 /var/backups/pipectl',
    ],
    dataDir: true,
    options: (command) => {
      command.option('--include-key', 'put the sealing key into the backup, which makes the file a secret')
      command.option(
        '--keep <count>',
        'write a dated backup into the directory FILE, and keep the newest COUNT',
      )
    },
    action: async ([file], options) => {
      const keep = options.keep === undefined ? null : requireCount('--keep', options.keep)
      const settings = await singleMachineSettings('backup', options)
      const own = path.join(settings.data_dir, 'sealing.key')
      const keyFile = options.includeKey === true ? (settings['secrets.key_file'] ?? own) : null
      if (keyFile !== null && !existsSync(keyFile)) {
        throw notFoundFailure(
          `the sealing key ${keyFile} does not exist`,
          'omit --include-key, and save the key from where it is kept',
        )
      }
      const made = await makeBackup({ dataDir: settings.data_dir, keyFile }, file!, keep)
      const size = made.manifest.files.reduce((sum, one) => sum + one.size, 0)
      say(
        `Backed up ${settings.data_dir} to ${made.file}: ${counted(made.manifest.files.length, 'file')}, ${bytes(size)}.`,
      )
      if (keyFile === null) say('The sealing key is not in it: keep it safe elsewhere.')
      for (const name of made.removed) say(`Removed ${name}, which is older than the ${keep} that are kept.`)
    },
  })
  addRestoreCommand(program)
  addPromoteCommand(program)
}

const promoteWithinMs = 60_000

function addPromoteCommand(program: Command): void {
  define(program, {
    usage: 'promote',
    summary: 'let the standby on this host take over from the primary',
    help: `Run it on the host of \`pipectl serve --standby\`, as its user. The old primary stops at its next write to the replica, and
its daemon does not start any more. Messages that it acknowledged and that are not in the replica stay on its disk.`,
    examples: ['pipectl promote --data-dir /var/lib/pipectl'],
    dataDir: true,
    action: async (_, options) => {
      const settings = await singleMachineSettings('restore', options)
      const { promote } = await import('../../maintenance/restore-replica.ts')
      const startedAt = performance.now()
      await promote(settings.data_dir, promoteWithinMs)
      say(
        `The standby has taken over within ${duration((performance.now() - startedAt) / 1000)}; its daemon is starting.`,
      )
    },
  })
}

interface RestoreFlags {
  paused?: boolean
  from?: string
  at?: string
  keyFile?: string
}

function addRestoreCommand(program: Command): void {
  define<RestoreFlags>(program, {
    usage: 'restore [file]',
    summary: 'restore a backup, or a replica, into a data directory that does not exist or is empty',
    help: `Messages that were delivered after the backup are delivered again as soon as the daemon runs. With --paused every
destination is blocked, so that you can check first; \`pipectl destinations unblock --all\` starts delivery again.

With --from, the directory is made from a replica in a bucket, by the settings of \`replica\` and with the sealing key of the lost
directory. A download that was interrupted continues when you run the same command again. The restored directory
takes the replica over when its daemon starts; with --at, it needs another replica.url.`,
    examples: [
      'pipectl restore pipectl-backup.tar.gz --data-dir /var/lib/pipectl --paused',
      'pipectl restore --from s3://bucket/prefix --key-file sealing.key --data-dir /var/lib/pipectl',
    ],
    options: (command) => {
      addSettingFlags(command)
      command.option('--paused', 'block every destination: nothing is delivered until you unblock it')
      command.option('--from <url>', 'the replica: s3://bucket/prefix')
      command.option('--at <time>', 'with --from: the state of this time instead of the newest')
      command.option('--key-file <file>', 'with --from: the sealing key of the lost directory')
    },
    action: async ([file], options) => {
      const settings = await singleMachineSettings('restore', options)
      const isPaused = options.paused === true
      if (options.from === undefined)
        await restoreFile(settings.data_dir, requireFile(file, options), isPaused)
      else await restoreFrom(settings, options.from, file, options)
    },
  })
}

function requireFile(file: string | undefined, { at, keyFile }: RestoreFlags): string {
  if (at !== undefined || keyFile !== undefined)
    throw usageFailure('--at and --key-file need --from', 'add --from s3://bucket/prefix')
  if (file !== undefined) return file
  throw usageFailure('no backup is given', 'give the file of a backup, or --from s3://bucket/prefix')
}

async function restoreFile(dataDir: string, file: string, paused: boolean): Promise<void> {
  const { restoreBackup } = await import('../../maintenance/restore.ts')
  const restored = await restoreBackup(file, dataDir, { paused })
  say(`Restored ${counted(restored.files, 'file')} to ${dataDir}.`)
  sayNext(dataDir, paused, restored.includesKey)
}

async function restoreFrom(
  settings: Settings,
  url: string,
  file: string | undefined,
  { paused, at, keyFile }: RestoreFlags,
): Promise<void> {
  if (file !== undefined) throw usageFailure('a file and --from are given', 'give one of the two')
  const { restoreReplica } = await import('../../maintenance/restore-replica.ts')
  const dataDir = settings.data_dir
  const restored = await withByteProgress((onProgress) =>
    restoreReplica(settings, io().env, {
      url,
      dataDir,
      keyFile: keyFile ?? null,
      atMs: at === undefined ? null : Date.parse(requireMoment(at, '--at')),
      paused: paused === true,
      onProgress,
      standby: null,
    }),
  )
  const through = new Date(restored.throughMs).toISOString()
  const { segments, slots } = restored
  say(`Restored ${counted(segments, 'segment')} and ${counted(slots, 'slot')} to ${dataDir}.`)
  say(`It has everything that was acknowledged before ${through}.`)
  if (restored.lacksMetadata) {
    say(
      'Later changes of pipes, keys and destinations are missing: the daemon was stopped before its snapshot after an upgrade.',
    )
  }
  if (at !== undefined)
    say('Set another replica.url before you start the daemon: this one has what came after.')
  sayNext(dataDir, paused === true, restored.includesKey || settings['secrets.key_file'] !== null)
}

function sayNext(dataDir: string, paused: boolean, hasKey: boolean): void {
  if (paused) say('Every destination is blocked; `pipectl destinations unblock --all` starts delivery again.')
  if (hasKey) return
  say(
    `Before you start the daemon, copy the sealing key to ${path.join(dataDir, 'sealing.key')} (mode 0600), or set secrets.key_file.`,
  )
}

/** `keep` is null if the backup is one file. */
async function makeBackup(
  source: { dataDir: string; keyFile: string | null },
  target: string,
  keep: number | null,
): Promise<DatedBackup> {
  if (keep !== null) {
    const { backUpDated } = await import('../../maintenance/dated-backups.ts')
    return await backUpDated(source, target, keep)
  }
  const { backUp } = await import('../../maintenance/backup.ts')
  return { manifest: await backUp({ ...source, file: target }), file: target, removed: [] }
}

function wordsOf({ workspace_name, pipe_name, destination_id, secrets }: LostSecrets): string {
  if (pipe_name === null)
    return `removed: ${workspace_name}: where its alerts go; set it again: pipectl alerts set`
  if (destination_id === null)
    return `removed: ${workspace_name}: the secrets of the source of ${pipe_name}; set them again: pipectl pipes update ${pipe_name} --source-secret-file FILE`
  return `blocked: ${workspace_name}: ${pipe_name} ${destination_id}, without ${secrets.join(', ')}`
}

function requireCount(flag: string, text: string): number {
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text)
  throw usageFailure(
    `${flag} is ${JSON.stringify(text)}`,
    `give a whole number from 1 to 999999, e.g. ${flag} 7`,
  )
}

function addSecretsCommands(program: Command): void {
  const secrets = group(
    program,
    'secrets',
    'the sealing key, which encrypts the stored secrets of destinations',
  )
  define(secrets, {
    usage: 'forget',
    summary:
      'continue without a lost sealing key: discard the stored secrets that the present key cannot decrypt',
    help: `For a data directory whose sealing key is lost. Stop the daemon first. Destinations that lose a secret are blocked and
keep their backlog; set their secrets again and unblock them. If there is no key at all, a new one is created.`,
    examples: ['pipectl secrets forget --data-dir /var/lib/pipectl'],
    destructive: true,
    dataDir: true,
    action: async (_, options) => {
      const settings = daemonSettings(options)
      const { forgetLostSecrets, lostSecrets } = await import('../../maintenance/secrets.ts')
      const lost = await lostSecrets(settings, io().env)
      if (lost === null) {
        throw nothingToDoFailure(
          'the sealing key decrypts every stored secret: there is nothing to discard',
          'start the daemon with `pipectl serve`',
        )
      }
      const destinations = lost.filter((one) => one.destination_id !== null)
      const sources = lost.filter((one) => one.destination_id === null && one.pipe_name !== null)
      const ofSources = sources.length > 0 ? `, ${counted(sources.length, 'source')} of webhooks` : ''
      const ofAlerts = lost.some((one) => one.pipe_name === null) ? ' and the address of alerts' : ''
      const found = `${counted(destinations.length, 'destination')}${ofSources}${ofAlerts}`
      await confirm(
        lost.length === 0
          ? 'Create a new sealing key? No stored secret is lost.'
          : `Discard the secrets of ${found}? They are blocked until you set them again.`,
        options.yes,
      )
      for (const one of await forgetLostSecrets(settings, io().env)) {
        say(wordsOf(one))
      }
      say(
        'Start the daemon. For each destination: `pipectl destinations update ID --secret KEY`, then once: `pipectl destinations unblock --all`.',
      )
    },
  })
  define(secrets, {
    usage: 'rotate-key',
    summary: 'create a new sealing key and encrypt every stored secret with it; stop the daemon first',
    help: `The old key is kept next to it as FILE.previous: earlier backups need it. Delete it when they are gone.
To rotate a key that systemd passes as a credential, set PIPECTL_SECRETS_KEY_FILE to its file.`,
    examples: ['pipectl secrets rotate-key --data-dir /var/lib/pipectl'],
    dataDir: true,
    action: async (_, options) => {
      const { rotateSealingKey } = await import('../../maintenance/secrets.ts')
      const settings = daemonSettings(options)
      const rotated = await rotateSealingKey(settings, io().env)
      say(
        `Encrypted the secrets of ${counted(rotated.destinations, 'destination')} with a new key: ${rotated.keyFile}`,
      )
      say(`The old key is ${rotated.previousKeyFile}: keep it as long as the earlier backups.`)
      if (settings['replica.url'] === null) return
      say(
        'The replica is sealed with the old key. Before you start the daemon, set replica.url to another prefix: docs/replica.md, "Rotate the sealing key".',
      )
    },
  })
}
