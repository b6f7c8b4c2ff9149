/** The replica in object storage: how far it is behind, what it holds, and when it was last restored on trial. */
import type { ReplicaFacts } from '../../../../contract/replica-facts.ts'
import { isReplicaBehind, replicaRows, stateInWords } from '../../../client/replica.ts'
import { Code, Facts, Notice, Section } from '../../ui/layout.tsx'

export function Replica({ replica, nowMs }: { replica: ReplicaFacts; nowMs: number }) {
  return (
    <Section title="Replica">
      {isReplicaBehind(replica) ? <Notice kind="bad">Not up to date: {stateInWords(replica)}.</Notice> : null}
      {replica.verified?.result === 'failed' ? (
        <Notice kind="bad">The last verification failed: the replica is not complete.</Notice>
      ) : null}
      <Facts facts={replicaRows(replica, nowMs)} />
      <Code
        label="Restore it on trial and compare it with the data directory"
        text="pipectl replica verify"
      />
    </Section>
  )
}
