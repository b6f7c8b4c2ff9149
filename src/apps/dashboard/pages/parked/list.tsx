/** Lists the parked records of a lane, with their errors and counts, and whether they can be replayed or discarded. */
import { type ReactNode, useState } from 'react'
import { Link } from 'wouter'
import type { ParkedRecord } from '../../../../contract/parked.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { errorWords, type ParkedFilter, placeWords, shortIds } from '../../../client/parked.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { api, isNotFound } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Button, Check, Choice, formStyles, TextField } from '../../ui/controls.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { CliTwin, type Column, Empty, Page, Section, Skeleton, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { Gone } from '../pipe/crumbs.tsx'
import { LaneCrumb, parkedPath, useLane, useReference } from './crumbs.tsx'
import styles from './parked.module.css'
import { useParkedPage } from './queries.ts'

type Reason = 'all' | ParkedRecord['reason']

export function ParkedListPage(place: { pipeId: string; destinationId: string }) {
  const [code, setCode] = useState('')
  const [reason, setReason] = useState<Reason>('all')
  const [after, setAfter] = useState<string | null>(null)
  const filter: ParkedFilter = {
    ...(code.trim() !== '' && { error_code: code.trim() }),
    ...(reason !== 'all' && { reason }),
  }
  const { data, error } = useParkedPage(place, filter, after)
  const total = useLane(place)?.lane.parked_records ?? null
  const reference = useReference(place)
  if (isNotFound(error)) return <Gone what="destination" />
  const narrow = (change: () => void) => {
    change()
    setAfter(null)
  }
  return (
    <Page title="Parked" name="Parked records" crumbs={<LaneCrumb place={place} />}>
      <Soft>
        Records that the destination rejected permanently, or that were skipped, are kept here while the lane
        continues. You can correct and replay them.{' '}
        {total === null
          ? null
          : `${counted(total, 'record')} of this lane ${total === 1 ? 'is' : 'are'} parked.`}
      </Soft>
      <div className={styles.filters}>
        <TextField label="Error code" value={code} mono onValue={(value) => narrow(() => setCode(value))} />
        <Choice
          label="Reason"
          value={reason}
          options={[
            ['all', 'rejected or skipped'],
            ['permanent_error', 'rejected'],
            ['skipped', 'skipped'],
          ]}
          onValue={(value) => narrow(() => setReason(value))}
        />
      </div>
      {data === undefined ? (
        error === null ? (
          <Skeleton />
        ) : (
          <FailureNotice failure={error} />
        )
      ) : (
        <Section title="In message order">
          {data.parked.length === 0 ? (
            <Empty title="Nothing is parked">
              <p>
                {Object.keys(filter).length === 0
                  ? 'The destination accepted all records.'
                  : 'No record matches the filter.'}
              </p>
            </Empty>
          ) : (
            <Records place={place} parked={data.parked} filter={filter} reference={reference} />
          )}
          <div className={formStyles.actions}>
            {after === null ? null : <Button onClick={() => setAfter(null)}>First page</Button>}
            {data.next === null ? null : <Button onClick={() => setAfter(data.next)}>Next page</Button>}
          </div>
          <CliTwin
            command={command(
              ...['parked', 'list', reference],
              ...(filter.error_code === undefined ? [] : ['--error-code', filter.error_code]),
              ...(filter.reason === undefined ? [] : ['--reason', filter.reason]),
            )}
          />
        </Section>
      )}
    </Page>
  )
}

interface RecordsProps {
  place: LaneRef
  parked: readonly ParkedRecord[]
  filter: ParkedFilter
  reference: string
}

function Records({ place, parked, filter, reference }: RecordsProps) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [asking, setAsking] = useState<'discard' | 'replay all' | null>(null)
  const { pipeId, destinationId } = place
  const short = shortIds(parked.map((one) => one.parked_id))
  const ids = parked.map((one) => one.parked_id).filter((id) => chosen.has(id))
  const toggle = (these: readonly string[], isChosen: boolean) => {
    const next = new Set(chosen)
    for (const id of these) isChosen ? next.add(id) : next.delete(id)
    setChosen(next)
  }
  const replay = useChange((body: { ids?: string[]; all?: true; error_code?: string }) =>
    api.call('replayManyParked', { path: { pipe_id: pipeId, destination_id: destinationId }, body }),
  )
  const discard = useChange((these: string[]) =>
    api.call('discardManyParked', {
      path: { pipe_id: pipeId, destination_id: destinationId },
      body: { ids: these },
    }),
  )
  const all = {
    all: true as const,
    ...(filter.error_code !== undefined && { error_code: filter.error_code }),
  }
  const replayAllTwin = command(
    ...['parked', 'replay', reference],
    ...(filter.error_code === undefined ? ['--all'] : ['--error-code', filter.error_code]),
  )
  const replayThose = async (body: Parameters<typeof replay.mutateAsync>[0], twin: string) => {
    const { replayed } = (await replay.mutateAsync(body)).body
    say(replayed === 0 ? 'There was nothing to replay.' : `Replaying ${counted(replayed, 'record')}.`, twin)
    setChosen(new Set())
  }
  const replayTwin = command('parked', 'replay', reference, ...ids)
  const discardTwin = command('parked', 'discard', reference, ...ids, '--yes')
  const columns: Column<ParkedRecord>[] = [
    {
      label: 'Select',
      cell: (one) => (
        <div className={styles.whole}>
          <Check
            label={short.get(one.parked_id) ?? one.parked_id}
            checked={chosen.has(one.parked_id)}
            onValue={(isChosen) => toggle([one.parked_id], isChosen)}
          />
        </div>
      ),
    },
    {
      label: 'Parked',
      cell: (one) => (
        <Whole>
          <Ago at={one.parked_ts} />
        </Whole>
      ),
    },
    {
      label: 'Record',
      cell: (one) => (
        <Whole>
          <Link to={parkedPath(place, one.parked_id)}>{placeWords(one)}</Link>
        </Whole>
      ),
    },
    { label: 'State', cell: (one) => <Whole>{stateWords(one)}</Whole> },
    { label: 'Message', cell: (one) => <Link to={`/messages/${one.msg_id}`}>Open message</Link> },
    { label: 'Error', cell: (one) => <Outside text={errorWords(one.error)} /> },
    { label: 'Attempts', cell: (one) => count(one.attempts), isNumber: true },
  ]
  return (
    <>
      <FailureNotice failure={asking === null ? (replay.error ?? discard.error) : null} />
      <div className={formStyles.actions}>
        <Check
          label="All on this page"
          checked={ids.length === parked.length}
          onValue={(isChosen) => toggle([...short.keys()], isChosen)}
        />
        <Button
          look="primary"
          changes
          disabled={ids.length === 0 || replay.isPending}
          onClick={() => void replayThose({ ids }, replayTwin).catch(() => {})}
        >
          Replay {ids.length === 0 ? 'selected' : counted(ids.length, 'record')}
        </Button>
        <Button changes disabled={ids.length === 0} onClick={() => setAsking('discard')}>
          Discard …
        </Button>
        <Button changes onClick={() => setAsking('replay all')}>
          Replay all …
        </Button>
      </div>
      <Table caption="Parked records" columns={columns} rows={parked} keyOf={(one) => one.parked_id} />
      {asking === 'discard' ? (
        <Confirm
          title={`Discard ${counted(ids.length, 'parked record')}?`}
          deed={`Discard ${counted(ids.length, 'record')}`}
          command={discardTwin}
          run={async () => {
            const { discarded } = (await discard.mutateAsync(ids)).body
            const isPart = discarded < ids.length
            say(
              `${counted(discarded, 'parked record')} discarded.${isPart ? ' The others are being replayed, or no longer exist.' : ''}`,
              discardTwin,
            )
            setChosen(new Set())
          }}
          onClose={() => setAsking(null)}
        >
          The destination never receives them. This cannot be undone.
        </Confirm>
      ) : null}
      {asking === 'replay all' ? (
        <Confirm
          title={
            filter.error_code === undefined ? (
              'Replay all parked records of this lane?'
            ) : (
              <>
                Replay all records with the error <Outside text={filter.error_code} />?
              </>
            )
          }
          deed="Replay all"
          isDanger={false}
          command={replayAllTwin}
          run={() => replayThose(all, replayAllTwin)}
          onClose={() => setAsking(null)}
        >
          Each is delivered again as stored, one after the other. Records that are rejected again stay parked.
        </Confirm>
      ) : null}
    </>
  )
}

/** On one line. */
function Whole({ children }: { children: ReactNode }) {
  return <span className={styles.whole}>{children}</span>
}

function stateWords({ state, reason }: ParkedRecord): string {
  if (state === 'replaying') return 'replaying'
  return reason === 'skipped' ? 'skipped' : 'rejected'
}
