/** Pipes as lines. */
import { Link } from 'wouter'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { bytes, count } from '../../../../platform/quantities.ts'
import { useNow } from '../../data/clock.ts'
import { useRates } from '../../data/overview.ts'
import { type Column, Soft, Table } from '../../ui/layout.tsx'
import { laneKind, Marked, PipeStatus } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'

const worstFirst = ['stuck', 'failing', 'blocked', 'retrying', 'flowing', 'idle'] as const

export function PipeTable({ pipes }: { pipes: readonly OverviewPipe[] }) {
  const rates = useRates().at(-1)?.byId
  const columns: Column<OverviewPipe>[] = [
    {
      label: 'Pipe',
      cell: (pipe) => (
        <Link to={`/pipes/${pipe.pipe_id}`}>
          <Outside text={pipe.pipe_name} />
        </Link>
      ),
    },
    { label: 'Takes records', cell: (pipe) => <PipeStatus pipe={pipe} /> },
    { label: 'Lanes', cell: (pipe) => <Lanes pipe={pipe} /> },
    { label: 'In per second', cell: (pipe) => count(rates?.get(pipe.pipe_id) ?? 0), isNumber: true },
    { label: 'In today', cell: (pipe) => count(pipe.usage_today.ingest_records), isNumber: true },
    {
      label: 'Waiting',
      cell: (pipe) =>
        pipe.pending_messages === 0 ? '0' : `${count(pipe.pending_messages)} (${bytes(pipe.pending_bytes)})`,
      isNumber: true,
    },
    { label: 'Last record', cell: (pipe) => <Ago at={pipe.last_ingest_ts} /> },
  ]
  return <Table caption="Pipes" columns={columns} rows={pipes} keyOf={(pipe) => pipe.pipe_id} />
}

/** `■ 1 stuck`, `● 2 flowing`: each kind once. */
function Lanes({ pipe }: { pipe: OverviewPipe }) {
  const nowMs = useNow()
  if (pipe.lanes.length === 0) return <Soft>no destination</Soft>
  const kinds = pipe.lanes.map((lane) => laneKind(lane, nowMs))
  const shown = worstFirst.filter((kind) => kinds.includes(kind))
  return (
    <>
      {shown.map((kind) => (
        <div key={kind}>
          <Marked kind={kind}>{`${kinds.filter((one) => one === kind).length} ${kind}`}</Marked>
        </div>
      ))}
    </>
  )
}
