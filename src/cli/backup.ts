/** `pipectl backup`, `restore`: a data directory in one file and back. They work on the directory, not through the API. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Command } from 'commander'
import { exitCodes, Failure } from '../client/failure.ts'
import { bytes, count } from '../client/quantities.ts'
import { define } from './define.ts'
import { addSettingFlags } from './settings-flags.ts'
import { say } from './terminal.ts'

export function addBackupCommands(program: Command): void {
  define<{ includeKey?: boolean }>(program, {
    usage: 'backup <file>',
    summary: 'copy a data directory into one file, also while the daemon runs',
    help: `Every message that was acknowledged before the start is in it. Run it on the daemon's host, as its user. The file is
a tar archive (gzip), readable by its owner alone. Without --include-key keep the sealing key elsewhere: stored
secrets of destinations cannot be opened without it.`,
    examples: ['pipectl backup --data-dir /var/lib/pipectl pipectl-backup.tar.gz'],
    options: (command) => {
      addSettingFlags(command, ['data_dir'])
      command.option('--include-key', 'put the sealing key into the backup, which makes the file a secret')
    },
    action: async ([file], options) => {
      const settings = await daemonSettings(options)
      const own = path.join(settings.data_dir, 'sealing.key')
      const keyFile = options.includeKey === true ? (settings['secrets.key_file'] ?? own) : null
      if (keyFile !== null && !existsSync(keyFile)) {
        throw new Failure(
          exitCodes.notFound,
          `the sealing key ${keyFile} does not exist`,
          'leave out --include-key and save the key where it is kept',
        )
      }
      const { backUp } = await import('./local/backup.ts')
      const manifest = await backUp({ dataDir: settings.data_dir, file: file!, keyFile })
      const size = manifest.files.reduce((sum, one) => sum + one.size, 0)
      say(`Backed up ${settings.data_dir} to ${file}: ${count(manifest.files.length)} files, ${bytes(size)}.`)
      if (keyFile === null) say('The sealing key is not in it: keep it safe elsewhere.')
    },
  })
  define(program, {
    usage: 'restore <file>',
    summary: 'make a data directory from a backup; it must not exist or be empty',
    help: 'Messages that were delivered after the backup are delivered again.',
    examples: ['pipectl restore pipectl-backup.tar.gz --data-dir /var/lib/pipectl'],
    options: (command) => addSettingFlags(command, ['data_dir']),
    action: async ([file], options) => {
      const { data_dir: dataDir } = await daemonSettings(options)
      const { restoreBackup } = await import('./local/restore.ts')
      const restored = await restoreBackup(file!, dataDir)
      say(`Restored ${count(restored.files)} files to ${dataDir}.`)
      if (!restored.includesKey) {
        say(
          `Before starting the daemon put the sealing key to ${path.join(dataDir, 'sealing.key')} (mode 0600), or set secrets.key_file.`,
        )
      }
    },
  })
}

/** The daemon's settings as its own commands read them; a wrong one is a Failure (usage). */
export async function daemonSettings(options: object) {
  const [{ settingsFrom }, { ConfigError }] = await Promise.all([
    import('./settings-flags.ts'),
    import('../config.ts'),
  ])
  try {
    return settingsFrom({ ...options }, process.env).settings
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    throw new Failure(
      exitCodes.usage,
      error.message,
      '`pipectl config show --origin` shows where settings come from',
      error,
    )
  }
}
