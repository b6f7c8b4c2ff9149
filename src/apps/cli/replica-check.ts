/** `pipectl replica check`: whether an object store can hold a replica. */
import type { Command } from 'commander'
import { commandFailure } from '../client/failure.ts'
import { addSettingFlags } from './daemon-commands.ts'
import { singleMachineSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { listView, print } from './output.ts'
import { openTextProgress } from './progress.ts'

export function addReplicaCheckCommand(replica: Command): void {
  define(replica, {
    usage: 'check [url]',
    summary: 'check that an object store has every property that a replica needs',
    help: `Creates, races for, lists, uploads, reads and removes objects below probe/ of the prefix: conditional and concurrent creation, reads and listings right
after a write, uploads in parts that are invisible until they are complete, ranges, removal. Without URL it checks replica.url; the
account is that of the settings. Exit code 1 if a property is missing. It sends about 100 requests and 30 MiB.`,
    examples: [
      'pipectl replica check --config /etc/pipectl/pipectl.toml',
      'pipectl replica check s3://my-bucket/test -o json',
    ],
    output: true,
    options: (command) => addSettingFlags(command),
    action: async ([url], options) => {
      const settings = await singleMachineSettings('verify', options)
      const { checkReplicaStore } = await import('../../maintenance/check-replica.ts')
      const progress = openTextProgress()
      const report = await checkReplicaStore(settings, url ?? null, ({ property }) =>
        progress.update(`Checked: ${property}`),
      ).finally(() => progress.end())
      await print(
        listView(report.findings, {
          json: JSON.stringify(report),
          name: ({ property }) => property,
          columns: [
            ['PROPERTY', ({ property }) => property],
            ['RESULT', ({ result }) => result],
            [{ label: 'DETAIL', wraps: true }, ({ detail }) => detail],
          ],
        }),
        options.output,
      )
      const failed = report.findings.filter(({ result }) => result === 'fail')
      if (failed.length === 0) return
      throw commandFailure(
        `${report.target} cannot hold a replica: ${failed.map(({ property }) => property).join(', ')}`,
        'use another object store',
      )
    },
  })
}
