/** `pipectl version`: shows the version of the program, and whether it can open a data directory. */
import type { Command } from 'commander'
import type { FormatCheck } from '../../maintenance/format-check.ts'
import { bytes } from '../../platform/quantities.ts'
import { version } from '../../platform/version.ts'
import { commandFailure, notFoundFailure } from '../client/failure.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { daemonSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { fieldTable, print, show } from './output.ts'

export function addVersionCommand(program: Command): void {
  define<{ checkDataDir?: boolean }>(program, {
    usage: 'version',
    summary:
      'print the version; --check-data-dir shows before an upgrade whether it can open a data directory',
    help: `--check-data-dir changes nothing, and the daemon can be running. With the settings of a node it checks the database of
the cluster. Exit code 0: this version can open it, after the listed migrations; 1: it cannot; 3: nothing is set up there.`,
    examples: ['pipectl version --check-data-dir --data-dir /var/lib/pipectl', 'pipectl version -o json'],
    output: true,
    options: (command) => {
      command.option('--check-data-dir', 'check the data directory, or the database of the cluster')
      addSettingFlags(command, ['data_dir'])
    },
    action: async (_, options) => {
      const { checkFormat, knownFormats } = await import('../../maintenance/format-check.ts')
      const own = { version: version(), node_version: process.version, ...knownFormats }
      const found = options.checkDataDir === true ? await checkFormat(daemonSettings(options)) : null
      const rows = [
        ['pipectl', own.version],
        ['Node.js', own.node_version],
        ['metadata format', show(own.metadata_format)],
        ['log format', show(own.log_format)],
      ]
      await print(
        {
          json: JSON.stringify({ ...own, data_dir: found }),
          names: () => [own.version],
          table: () => fieldTable([...rows, ...(found === null ? [] : formatRows(found))]),
        },
        options.output,
      )
      if (found !== null) requireOpens(found)
    },
  })
}

const inWords: Record<FormatCheck['result'], string> = {
  current: 'opens as it is',
  upgrade: 'opens, and is upgraded at the next start',
  newer: 'written by a newer version',
  older: 'written by a version that is too old',
  unreadable: 'cannot be read',
  not_set_up: 'not set up',
}

function formatRows(found: FormatCheck): string[][] {
  const copy =
    found.copy_bytes === null
      ? []
      : [['  copy kept before', `${bytes(found.copy_bytes)}; ${bytes(found.free_bytes ?? 0)} are free`]]
  return [
    ['checked', found.place],
    ['  result', inWords[found.result]],
    ['  metadata format', show(found.metadata_format)],
    ['  log format', show(found.log_format)],
    ['  last opened by', found.last_opened_by ?? 'not known'],
    ...found.migrations.map((name, index) => [index === 0 ? '  migrations' : '', name]),
    ...copy,
  ]
}

function requireOpens({ result, place, problem }: FormatCheck): void {
  if (result === 'newer')
    throw commandFailure(
      `${place} was written by a newer pipectl: this version, ${version()}, does not open it`,
      'install that version, or restore a backup: docs/upgrading.md',
    )
  if (result === 'older')
    throw commandFailure(
      `${place} was written by an earlier pipectl: this version, ${version()}, does not open it`,
      'install that version, or restore a backup: docs/upgrading.md',
    )
  if (result === 'unreadable')
    throw commandFailure(
      problem ?? `${place} cannot be read`,
      'run it as the user of the daemon; `pipectl verify` looks for damage',
    )
  if (result === 'not_set_up')
    throw notFoundFailure(`nothing is set up in ${place}`, 'give the right --data-dir, or run `pipectl init`')
}
