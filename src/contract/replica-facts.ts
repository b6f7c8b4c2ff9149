/** The replica of a single machine, as overviews show it. */
import Type, { type Static } from 'typebox'
import { replicaStates } from './replica-words.ts'
import { count, nullable, string, timestamp } from './schema-parts.ts'

const Requests = (description: string) =>
  Type.Object({ put: count(), get: count(), list: count(), remove: count() }, { description })

export const ReplicaFacts = Type.Object({
  replica_state: Type.Enum([...replicaStates], {
    description:
      'ok: everything older than `lag_seconds` is in the bucket. failing: requests fail and are repeated. joining: the bucket has not answered yet.',
  }),
  replica_mode: Type.Enum(['async', 'sync']),
  lag_seconds: count('The age of the newest moment that is in the bucket completely.'),
  slot: count('The newest object of the log in the bucket.'),
  generation: count('The number of machines that have written the replica so far, with this one.'),
  snapshot_ts: nullable(timestamp('When the newest snapshot was stored. Null: nothing can be restored yet.')),
  error_code: nullable(string('Why requests fail.')),
  failing_since_ts: nullable(timestamp()),
  requests: Requests('Requests since the start of the daemon.'),
  requests_per_day: Requests(
    'The number in a day at the rate of the last hour, or since the start of the daemon if that is shorter.',
  ),
  sent_bytes: count('Since the start of the daemon.'),
  stored_objects: nullable(
    count('In the bucket, when the newest snapshot was stored. Null: not counted yet.'),
  ),
  stored_bytes: nullable(count('The size of these objects.')),
  verified: nullable(
    Type.Object(
      {
        verified_ts: timestamp(),
        result: Type.Enum(['ok', 'failed']),
        slot: nullable(count('The newest object that was restored. Null: the restore failed.')),
        through_ts: nullable(timestamp('Everything that was acknowledged before was restored.')),
        messages: count('Messages that were restored.'),
        problems: count(),
      },
      { description: 'The last `pipectl replica verify`. Null: never.' },
    ),
  ),
})
export type ReplicaFacts = Static<typeof ReplicaFacts>
