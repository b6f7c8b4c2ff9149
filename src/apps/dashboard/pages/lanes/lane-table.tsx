/** A table of lanes: sorted by any column, with boxes to retry, block or unblock several. */
import { laneWord, severity } from '../../../../contract/state-words.ts'
import { count, duration } from '../../../../platform/quantities.ts'
import type { LaneOfPipe } from '../../../client/overview.ts'
import { fullName } from '../../../client/workspace.ts'
import { useNow } from '../../data/clock.ts'
import { useRates } from '../../data/overview.ts'
import { useMayChange } from '../../data/session-context.ts'
import { LaneBulkButtons } from '../../ui/lane-batch.tsx'
import { Cause, LaneLink, ParkedLink } from '../../ui/lane-words.tsx'
import { type Column, Soft, Table } from '../../ui/layout.tsx'
import { usePage } from '../../ui/paging.tsx'
import { BulkBar, useSelection, withBoxes } from '../../ui/selection.tsx'
import { useSorted } from '../../ui/sort.tsx'
import { LaneState, worstFirst } from '../../ui/state.tsx'
import { Ago, Outside } from '../../ui/text.tsx'

interface LaneTableProps {
  caption: string
  lanes: readonly LaneOfPipe[]
  /** Absent on the page of a pipe. */
  showsPipe?: boolean
}

const idOf = ({ destination }: LaneOfPipe) => destination.destination_id

export function LaneTable({ caption, lanes, showsPipe = false }: LaneTableProps) {
  const own = useLaneColumns(showsPipe)
  const { rows: sorted, sorting, choice } = useSorted(own, lanes)
  const { rows, pager } = usePage(sorted, 'lane')
  const selection = useSelection(rows.map(idOf))
  const mayChange = useMayChange()
  const canSelect = mayChange && lanes.length > 1
  const nameOf = ({ pipe, destination }: LaneOfPipe) =>
    showsPipe ? fullName(pipe, destination) : destination.destination_name
  return (
    <>
      {lanes.length > 1 ? choice : null}
      {canSelect ? (
        <BulkBar selection={selection}>
          <LaneBulkButtons
            lanes={rows.filter((one) => selection.isSelected(idOf(one)))}
            onDone={selection.clear}
          />
        </BulkBar>
      ) : null}
      <Table
        caption={caption}
        columns={canSelect ? withBoxes(own, selection, idOf, nameOf) : own}
        rows={rows}
        keyOf={idOf}
        sorting={sorting}
      />
      {pager}
    </>
  )
}

function useLaneColumns(showsPipe: boolean): Column<LaneOfPipe>[] {
  const rates = useRates().at(-1)?.byId
  return [
    {
      label: 'Destination',
      cell: ({ pipe, destination }) => (
        <>
          <LaneLink
            pipeId={pipe.pipe_id}
            destination={destination}
            {...(showsPipe && { pipeName: pipe.pipe_name })}
          />
          <br />
          <Soft>
            <Outside text={destination.destination_target} />
          </Soft>
        </>
      ),
      sortBy: ({ pipe, destination }) => `${pipe.pipe_name}/${destination.destination_name}`,
    },
    {
      label: 'Lane',
      cell: (one) => <State lane={one} />,
      isLong: true,
      sortBy: ({ destination }) => worstFirst.indexOf(laneWord(destination)),
    },
    {
      label: 'Records out/s',
      cell: ({ destination }) => count(rates?.get(destination.destination_id) ?? 0),
      isNumber: true,
      sortBy: ({ destination }) => rates?.get(destination.destination_id) ?? 0,
    },
    {
      label: 'Pending',
      cell: ({ destination: { lane } }) =>
        lane.pending_messages === 0
          ? '0'
          : `${count(lane.pending_messages)}, ${duration(lane.oldest_pending_age_seconds)}`,
      isNumber: true,
      sortBy: ({ destination: { lane } }) => lane.pending_messages,
    },
    {
      label: 'Last delivered',
      cell: ({ destination: { lane } }) => <Ago at={lane.last_delivered_ts} />,
      sortBy: ({ destination: { lane } }) => lane.last_delivered_ts,
    },
  ]
}

function State({ lane: { pipe, destination } }: { lane: LaneOfPipe }) {
  const nowMs = useNow()
  return (
    <>
      <LaneState destination={destination} />
      {severity(destination, nowMs) > 0 ? (
        <div>
          <Cause lane={destination.lane} />
        </div>
      ) : null}
      <div>
        <ParkedLink pipeId={pipe.pipe_id} destination={destination} />
      </div>
    </>
  )
}
