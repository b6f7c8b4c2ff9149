/** `pipectl doctor`: looks at this host as a daemon would find it; needs no running daemon. */
import type { Command } from 'commander'
import { exitCodes, Failure } from '../client/failure.ts'
import { daemonSettings } from './backup.ts'
import { define, formats } from './define.ts'
import { print } from './output.ts'
import { addSettingFlags } from './settings-flags.ts'

export function addDoctorCommand(program: Command): void {
  define(program, {
    usage: 'doctor',
    summary:
      'check settings, disk, fsync time, keys, geo file, ports and limits of this host; says what to do',
    help: 'Run it on the host of the daemon, as its user and with its settings. Exit code 1 when a check fails.',
    examples: [
      'pipectl doctor --config /etc/pipectl.toml',
      'pipectl doctor --data-dir /var/lib/pipectl -o json',
    ],
    output: formats,
    options: (command) => addSettingFlags(command),
    action: async (_, options) => {
      const settings = await daemonSettings(options)
      const { diagnose } = await import('./local/doctor.ts')
      const checks = [
        { name: 'settings', result: 'ok', detail: 'are valid', next: '' },
        ...(await diagnose(settings, process.env)),
      ]
      const view = {
        json: JSON.stringify({ checks }),
        items: () => checks.map((one) => JSON.stringify(one)),
        names: () => checks.filter((one) => one.result !== 'ok').map((one) => one.name),
        table: () => ({
          columns: ['CHECK', 'RESULT', 'DETAIL'],
          rows: checks.flatMap((one) => [
            [one.name, one.result, one.detail],
            ...(one.next === '' ? [] : [['', '', `→ ${one.next}`]]),
          ]),
        }),
      }
      await print(view, options.output)
      const failed = checks.filter((one) => one.result === 'fail')
      if (failed.length === 0) return
      throw new Failure(
        exitCodes.failed,
        `${failed.length} of ${checks.length} checks failed: ${failed.map((one) => one.name).join(', ')}`,
        'do what is said beside each, then run doctor again',
      )
    },
  })
}
