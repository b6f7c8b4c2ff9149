/** `pipectl replica status`: the replica of the running daemon. */
import type { Command } from 'commander'
import type { ReplicaFacts } from '../../contract/replica-facts.ts'
import { commandFailure, notFoundFailure } from '../client/failure.ts'
import { OverviewFeed } from '../client/overview-feed.ts'
import { isReplicaBehind, replicaRows, stateInWords } from '../client/replica.ts'
import { clientCommand } from './define.ts'
import { oneView, print } from './output.ts'

export function addReplicaStatusCommand(replica: Command): void {
  clientCommand<{ check?: boolean }>(replica, {
    usage: 'status',
    summary: 'show how far the replica is behind, what it holds, its requests, and when it was last verified',
    help: `The requests of a day are those of the last hour, or since the start of the daemon, multiplied to 24 hours. The cost of a month is about
30 × PUT and LIST of a day × their price, plus 30 × GET of a day × its price, plus the stored size × the price of a GB. Deletions cost nothing at
most stores.`,
    examples: ['pipectl replica status', 'pipectl replica status --check -o json'],
    options: (command) =>
      command.option(
        '--check',
        'exit code 1 if it is more than 5 minutes behind, or was found incomplete, or has no snapshot',
      ),
    action: async (client, _, options) => {
      const { service, server_ts } = await new OverviewFeed(client).next()
      // A daemon of an earlier version does not send it.
      const replica: ReplicaFacts | null = service.replica ?? null
      if (replica === null)
        throw notFoundFailure('this service has no replica', 'set replica.url: see docs/replica.md')
      const rows = replicaRows(replica, Date.parse(server_ts)).map(([label, text]) => [
        label.toLowerCase(),
        text,
      ])
      await print(oneView(JSON.stringify(replica), replica.replica_state, rows), options.output)
      if (options.check === true) requireSound(replica)
    },
  })
}

function requireSound(replica: ReplicaFacts): void {
  if (isReplicaBehind(replica))
    throw commandFailure(
      `the replica is not up to date: ${stateInWords(replica)}`,
      'the log of the daemon has the reason: replica.failing',
    )
  if (replica.verified?.result === 'failed')
    throw commandFailure('the last verification failed', '`pipectl replica verify` shows what is missing')
}
