/** `pipectl destinations drift`: record keys without a column, and columns without a value. */
import type { Command } from 'commander'
import { ago, count, counted } from '../../../platform/quantities.ts'
import { type Failure, nothingToDoFailure } from '../../client/failure.ts'
import { fullName, lanePath } from '../../client/workspace.ts'
import { clientCommand } from '../define.ts'
import { listView, print } from '../output.ts'
import { findDestination } from '../references.ts'
import { say } from '../terminal.ts'
import { namingHelp } from './status.ts'

export function addDriftCommand(destinations: Command): void {
  clientCommand(destinations, {
    usage: 'drift <destination>',
    summary: 'list keys of the records that have no column, and columns that no record fills',
    help: `${namingHelp}\nCounted in a sample of the delivered records (up to 20 of a batch, 100 a second) since the last change of the columns.`,
    examples: ['pipectl destinations drift orders/database'],
    action: async (client, [reference], options) => {
      const { pipe, destination } = await findDestination(client, reference!)
      const reply = await client.call('getDrift', {
        path: lanePath(destination),
      })
      const { mapping, keys, records_seen, other_keys, unfilled_columns } = reply.body.drift
      const name = fullName(pipe, destination)
      if (mapping !== 'columns') throw nothingMapped(name, mapping)
      const now = Date.now()
      const view = listView(keys, {
        json: reply.text,
        name: (one) => one.key,
        columns: [
          [{ label: 'KEY', shrinksTo: 20 }, (one) => one.key],
          ['RECORDS', (one) => count(one.records)],
          ['TYPE', (one) => one.type],
          [{ label: 'EXAMPLE', shrinksTo: 12 }, (one) => one.example],
          [{ label: 'LAST SEEN', gives: 1 }, (one) => ago(one.last_seen_ts, now)],
        ],
        empty: records_seen === 0 ? 'no record was sampled yet' : 'every key has a column',
      })
      await print(view, options.output)
      if (records_seen > 0) say(`In a sample of ${counted(records_seen, 'record')}.`)
      if (other_keys > 0) say(`Further keys occurred ${count(other_keys)} times.`)
      if (unfilled_columns.length > 0) say(`No record filled: ${unfilled_columns.join(', ')}.`)
      if (keys[0] !== undefined) adviseColumn(name, keys[0])
    },
  })
}

function adviseColumn(name: string, { key, type }: { key: string; type: string }): void {
  const word = /^[\w.-]+$/.test(key) ? key : 'KEY'
  const columnType = type === 'null' ? 'string' : type
  say(`To store one: pipectl destinations update ${name} --add-column ${word}:${columnType} --alter-table`)
}

function nothingMapped(name: string, mapping: 'by_name' | 'none'): Failure {
  return mapping === 'none'
    ? nothingToDoFailure(`${name} is not a database`, 'drift is recorded only for databases')
    : nothingToDoFailure(
        `${name} has no column mappings, so nothing is counted`,
        `map its columns: pipectl destinations update ${name} --add-column NAME:TYPE`,
      )
}
