/** The state of the daemon. Read-only: its settings are in a file, whose path the page shows. */
import type { Overview } from '../../../../contract/overview.ts'
import { readyWords } from '../../../../contract/ready-words.ts'
import { bytes, count, counted } from '../../../../platform/quantities.ts'
import { clusterOf } from '../../../client/cluster.ts'
import { useOverview } from '../../data/overview.ts'
import { useSession } from '../../data/session-context.ts'
import { Code, Facts, Notice, Page, Section, Skeleton, Soft } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { Cluster } from './cluster.tsx'
import { Replica } from './replica.tsx'

export function ServicePage() {
  const { data: overview } = useOverview()
  return (
    <Page title="Service" name="Service">
      {overview === undefined ? <Skeleton lines={9} /> : <Service overview={overview} />}
    </Page>
  )
}

function Service({ overview }: { overview: Overview }) {
  const session = useSession()
  const { service, buffer } = overview
  const cluster = clusterOf(overview)
  return (
    <>
      <Notice kind={service.is_ready ? 'good' : 'bad'}>
        {service.is_ready
          ? 'Ready: records are accepted and stored.'
          : `Not ready: ${service.reasons.map(readyWords).join('; ')}.`}
      </Notice>
      {service.warnings.map((warning) => (
        <Notice key={warning} kind="warn">
          Warning: {readyWords(warning)}.
        </Notice>
      ))}
      {cluster === null ? null : <Cluster cluster={cluster} />}
      <Section title={cluster === null ? 'Daemon' : 'This node'}>
        <Facts
          facts={[
            ['Version', service.version],
            ['Started', <Ago key="at" at={service.started_ts} />],
            ['HTTP engine', service.http_engine],
            ['Ingest threads', count(service.ingest_workers)],
            ['Delivery restarted', counted(service.delivery_restarts, 'time')],
            ['Private addresses as destinations', service.egress_private === 'allow' ? 'allowed' : 'denied'],
            ['Workspace', <Outside key="name" text={session?.workspace.workspace_name ?? ''} />],
          ]}
        />
      </Section>
      <Section title="Buffer">
        <Facts
          facts={[
            ['Size', `${bytes(buffer.size_bytes)} of ${bytes(buffer.max_bytes)}`],
            ['Free on the disk', bytes(buffer.free_disk_bytes)],
            ['Rejects records below', `${bytes(buffer.min_free_disk_bytes)} free`],
            ['Oldest message', <Ago key="at" at={buffer.oldest_ts} never="none" />],
            ['Rejects records now', <Outside key="reason" text={buffer.unavailable_reason ?? 'no'} />],
          ]}
        />
      </Section>
      {service.replica ? <Replica replica={service.replica} nowMs={Date.parse(overview.server_ts)} /> : null}
      <Section title="On the server">
        <Soft>
          Settings come from the daemon's configuration file and its environment. Changes apply after a
          restart.
        </Soft>
        <Code label="Show the settings in effect and where each comes from" text="pipectl config show" />
        <Code label="Check disk, buffer, keys, ports and limits" text="pipectl doctor" />
      </Section>
    </>
  )
}
