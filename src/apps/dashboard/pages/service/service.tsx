/** How the daemon is. Read only: settings are in its file, which the page names. */
import type { Overview } from '../../../../contract/overview.ts'
import { bytes, count } from '../../../../platform/quantities.ts'
import { clusterOf } from '../../../client/cluster.ts'
import { useOverview } from '../../data/overview.ts'
import { useSession } from '../../data/session-context.ts'
import { Code, Facts, Notice, Page, Section, Skeleton, Soft } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { Cluster } from './cluster.tsx'

const warningWords: Record<string, string> = {
  segments_damaged: 'Parts of the log are damaged and wait to be salvaged: `pipectl repair`.',
  segments_missing: 'Parts of the log are missing: `pipectl verify` says which.',
  messages_lost: 'Acknowledged messages are lost: `pipectl doctor` says which.',
  safe_mode: 'Started with `serve --safe`: nothing is delivered.',
  tls_certificate_expires:
    'The certificate of a listener ends within two days, or has: `pipectl doctor` says which.',
  tls_certificate_rejected:
    'A new certificate cannot be used, the one before is served: `pipectl doctor` says why.',
}
const reasonWords: Record<string, string> = {
  buffer_unavailable: 'The buffer takes no records.',
  disk_full: 'The disk is full.',
  metadata_unreachable: 'Metadata cannot be reached.',
  shutting_down: 'It is shutting down.',
  not_in_cluster: 'This node has lost touch with its cluster and accepts nothing; others deliver its pipes.',
}

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
          ? 'Ready: records are taken and stored.'
          : service.reasons.map((reason) => reasonWords[reason] ?? reason).join(' ')}
      </Notice>
      {service.warnings.map((warning) => (
        <Notice key={warning} kind="warn">
          {warningWords[warning] ?? warning}
        </Notice>
      ))}
      {cluster === null ? null : <Cluster cluster={cluster} />}
      <Section title={cluster === null ? 'Daemon' : 'The node that answers'}>
        <Facts
          facts={[
            ['Version', service.version],
            ['Started', <Ago key="at" at={service.started_ts} />],
            ['HTTP engine', service.http_engine],
            ['Ingest threads', count(service.ingest_workers)],
            ['Delivery restarted', `${count(service.delivery_restarts)} times`],
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
            ['Takes no records below', `${bytes(buffer.min_free_disk_bytes)} free`],
            ['Oldest message', <Ago key="at" at={buffer.oldest_ts} never="none" />],
            ['Rejects records because', buffer.unavailable_reason ?? 'it does not'],
          ]}
        />
      </Section>
      <Section title="On its host">
        <Soft>Settings are in the file of the daemon and in its environment; a restart applies them.</Soft>
        <Code label="Settings in effect, and where each comes from" text="pipectl config show" />
        <Code label="Disk, buffer, keys, ports and limits" text="pipectl doctor" />
      </Section>
    </>
  )
}
