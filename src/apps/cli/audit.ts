/** `pipectl audit`: who changed what. */
import type { Command } from 'commander'
import type { AuditEntry } from '../../contract/audit.ts'
import { changeOf, resourceName } from '../client/audit-name.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { clientCommand, defaultFormat } from './define.ts'
import { requireMoment } from './moment.ts'
import { listView, print } from './output.ts'

interface AuditOptions {
  since?: string
  operation?: string
  resource?: string
  limit?: string
  after?: string
}

export function addAuditCommand(program: Command): void {
  clientCommand<AuditOptions>(program, {
    usage: 'audit',
    summary: 'show who changed what and from where, newest first',
    help: 'The JSON has the values before and after each change, without secrets.',
    json: true,
    examples: ['pipectl audit --since 1h', 'pipectl audit --operation deletePipe --json'],
    options: (command) => {
      command.option(
        '--since <time>',
        'changes since: 1h or 7d (ago), or a time such as 2027-01-31T00:00:00Z',
      )
      command.option('--operation <name>', 'only this operation, such as updateDestination')
      command.option('--resource <id>', 'only changes of this pipe, destination, key or user')
      command.option('--limit <number>', 'number of entries, 1 to 500 (default: 50)')
      command.option('--after <audit_id>', 'only entries older than this one')
    },
    action: async (client, _, options) => {
      const { body, text } = await client.call('listAudit', { query: queryOf(options) })
      // Only a table shows names. Other formats have ids.
      const isTable = (options.output ?? defaultFormat) === defaultFormat
      const overview = isTable ? await new OverviewFeed(client).next().catch(() => null) : null
      const view = listView(body.audit, {
        json: text,
        name: (one) => String(one.audit_id),
        columns: [
          [{ label: 'ID', gives: 5 }, (one) => String(one.audit_id)],
          ['TIME (UTC)', (one) => one.audit_ts.slice(0, 19).replace('T', ' ')],
          [{ label: 'WHO', shrinksTo: 12 }, whoOf],
          [{ label: 'FROM', gives: 4 }, (one) => one.address ?? 'this machine'],
          ['OPERATION', (one) => one.operation],
          [{ label: 'ON', shrinksTo: 20, keepsEnd: true }, (one) => resourceName(one, overview)],
          [{ label: 'CHANGED', shrinksTo: 10, gives: 2 }, changeOf],
        ],
        empty: 'nothing was changed',
      })
      await print(view, options.output)
    },
  })
}

function whoOf({ actor }: AuditEntry): string {
  return `${actor.kind} ${actor.name ?? actor.id ?? ''}`.trim()
}

function queryOf({ since, operation, resource, limit, after }: AuditOptions): Record<string, string> {
  return {
    ...(since === undefined ? {} : { since: requireMoment(since, '--since') }),
    ...(operation === undefined ? {} : { operation }),
    ...(resource === undefined ? {} : { resource_id: resource }),
    ...(limit === undefined ? {} : { limit }),
    ...(after === undefined ? {} : { after }),
  }
}
