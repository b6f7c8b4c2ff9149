/** The replays of a lane: those that wait or run, and recent ones. */
import { useQuery } from '@tanstack/react-query'
import { command } from '../../../client/cli-twin.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { destinationEveryMs } from '../../data/queries.ts'
import { isOpen } from '../../ui/job-state.tsx'
import { CliTwin, Section, Table } from '../../ui/layout.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import { CancelReplay, pathOf, ReplayProgress, ReplayState } from './progress.tsx'

const shownRecent = 5
const openEveryMs = 2_000

/** Not shown for a lane without replays. */
export function ReplaysSection({ lane, name }: { lane: LaneRef; name: string }) {
  const { data } = useQuery({
    queryKey: ['pipe', lane.pipeId, 'replays', lane.destinationId],
    queryFn: async ({ signal }) =>
      (await api.call('listReplays', { path: pathOf(lane), signal })).body.replays,
    refetchInterval: ({ state }) => (state.data?.some(isOpen) ? openEveryMs : destinationEveryMs),
  })
  if (data === undefined || data.length === 0) return null
  const open = data.filter(isOpen)
  const rows = [...open, ...data.filter((one) => !isOpen(one)).slice(0, shownRecent)]
  return (
    <Section title="Replays">
      <Table
        caption="Replays"
        rows={rows}
        keyOf={(one) => one.replay_id}
        columns={[
          { label: 'Began', cell: (one) => <Ago at={one.started_ts ?? one.created_ts} />, isShort: true },
          { label: 'State', cell: (one) => <ReplayState replay={one} />, isShort: true },
          {
            label: 'Range',
            cell: (one) => <Outside text={`${boundWords(one.from)} to ${boundWords(one.to)}`} />,
          },
          { label: 'Progress', cell: (one) => <ReplayProgress replay={one} /> },
          { label: 'By', cell: ({ created_by: by }) => <Outside text={by.name ?? by.kind} /> },
          { label: '', cell: (one) => <CancelReplay lane={lane} replay={one} /> },
        ]}
      />
      <CliTwin command={command('lanes', 'replays', name)} />
    </Section>
  )
}

/** A time as the rest of the page shows it; `earliest`, `now` and a stream_seq as they are. */
function boundWords(bound: number | string): string {
  return typeof bound === 'string' && bound.includes('T') ? exactTime(bound) : String(bound)
}
