/** The table of pipes. */
import { Link } from 'wouter'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { laneWord } from '../../../../contract/state-words.ts'
import { bytes, count } from '../../../../platform/quantities.ts'
import { useRates } from '../../data/overview.ts'
import { type Column, Soft, Table } from '../../ui/layout.tsx'
import { PipeStatus, Word, worstFirst } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'

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
    { label: 'Status', cell: (pipe) => <PipeStatus pipe={pipe} /> },
    { label: 'Lanes', cell: (pipe) => <Lanes pipe={pipe} /> },
    { label: 'Records in/s', cell: (pipe) => count(rates?.get(pipe.pipe_id) ?? 0), isNumber: true },
    { label: 'Records today', cell: (pipe) => count(pipe.usage_today.ingest_records), isNumber: true },
    {
      label: 'Pending',
      cell: (pipe) =>
        pipe.pending_messages === 0 ? '0' : `${count(pipe.pending_messages)} (${bytes(pipe.pending_bytes)})`,
      isNumber: true,
    },
    { label: 'Last record', cell: (pipe) => <Ago at={pipe.last_ingest_ts} /> },
  ]
  return <Table caption="Pipes" columns={columns} rows={pipes} keyOf={(pipe) => pipe.pipe_id} />
}

/** `■ 1 stuck`, `● 2 delivering`: each state once. */
function Lanes({ pipe }: { pipe: OverviewPipe }) {
  if (pipe.lanes.length === 0) return <Soft>no destination</Soft>
  const words: string[] = pipe.lanes.map(laneWord)
  const shown = worstFirst.filter((word) => words.includes(word))
  return (
    <>
      {shown.map((word) => (
        <div key={word}>
          <Word word={word} text={`${words.filter((one) => one === word).length} ${word}`} />
        </div>
      ))}
    </>
  )
}
