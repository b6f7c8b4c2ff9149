/** The table of pipes. */
import { Link } from 'wouter'
import type { OverviewPipe } from '../../../../contract/overview.ts'
import { laneWord } from '../../../../contract/state-words.ts'
import { bytes, count } from '../../../../platform/quantities.ts'
import { useRates } from '../../data/overview.ts'
import { type Column, Soft, type Sorting, Table } from '../../ui/layout.tsx'
import { PipeStatus, Word, worstFirst } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'

export function PipeTable({ pipes, sorting }: { pipes: readonly OverviewPipe[]; sorting?: Sorting }) {
  return (
    <Table
      caption="Pipes"
      columns={usePipeColumns()}
      rows={pipes}
      keyOf={(pipe) => pipe.pipe_id}
      {...(sorting && { sorting })}
    />
  )
}

export function usePipeColumns(): Column<OverviewPipe>[] {
  const rates = useRates().at(-1)?.byId
  return [
    {
      label: 'Pipe',
      sortBy: (pipe) => pipe.pipe_name,
      cell: (pipe) => (
        <Link to={`/pipes/${pipe.pipe_id}`}>
          <Outside text={pipe.pipe_name} />
        </Link>
      ),
    },
    { label: 'Status', cell: (pipe) => <PipeStatus pipe={pipe} />, sortBy: (pipe) => pipe.pipe_status },
    {
      label: 'Lanes',
      cell: (pipe) => <Lanes pipe={pipe} />,
      // The pipe with the worst lane comes first.
      sortBy: (pipe) =>
        Math.min(...pipe.lanes.map((one) => worstFirst.indexOf(laneWord(one))), worstFirst.length),
    },
    {
      label: 'Records in/s',
      cell: (pipe) => count(rates?.get(pipe.pipe_id) ?? 0),
      isNumber: true,
      sortBy: (pipe) => rates?.get(pipe.pipe_id) ?? 0,
    },
    {
      label: 'Records today',
      cell: (pipe) => count(pipe.usage_today.ingest_records),
      isNumber: true,
      sortBy: (pipe) => pipe.usage_today.ingest_records,
    },
    {
      label: 'Pending',
      cell: (pipe) =>
        pipe.pending_messages === 0 ? '0' : `${count(pipe.pending_messages)} (${bytes(pipe.pending_bytes)})`,
      isNumber: true,
      sortBy: (pipe) => pipe.pending_messages,
    },
    {
      label: 'Last record',
      cell: (pipe) => <Ago at={pipe.last_ingest_ts} />,
      sortBy: (pipe) => pipe.last_ingest_ts,
    },
  ]
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
