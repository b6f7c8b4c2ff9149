/** The actions on a lane in order of impact: retry, skip, rewind, block. Delete is separate. */
import { useState } from 'react'
import { useLocation } from 'wouter'
import type { Destination, LaneStatus } from '../../../../contract/destination.ts'
import { wordsOf } from '../../../../contract/destination-words.ts'
import { bytes, counted } from '../../../../platform/quantities.ts'
import { settingsOf } from '../../../client/changed-meanwhile.ts'
import { command, destinationName } from '../../../client/cli-twin.ts'
import { skipHelps } from '../../../client/lane-error.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { Confirm, ConfirmDelete } from '../../ui/confirm.tsx'
import { Button, formStyles } from '../../ui/controls.tsx'
import { FailureNotice, fieldErrors } from '../../ui/failure.tsx'
import { Choice, TextField } from '../../ui/fields.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { nameOf } from '../../ui/lane-words.tsx'
import { CliTwin, Soft } from '../../ui/layout.tsx'
import { say, type ToastLink } from '../../ui/toasts.tsx'
import styles from './lane.module.css'

type SimpleAction = 'skip' | 'block' | 'unblock' | 'pin'
type Asking = SimpleAction | 'rewind' | 'delete'

export interface LaneActionsProps {
  pipeName: string
  destination: Destination
  etag: string | null
  /** The number of records in the blocking message, if known. */
  blockingRecords: number | null
}

export function LaneActions({ pipeName, destination, etag, blockingRecords }: LaneActionsProps) {
  const [asking, setAsking] = useState<Asking | null>(null)
  const { lane, pipe_id: pipeId, destination_id: id, destination_type: type } = destination
  const isBlocked = destination.destination_status === 'blocked'
  const isFailing = lane.blocking_msg_id !== null && !isBlocked
  const canSkip = !isFailing || skipHelps(lane)
  const twin = command('lanes', 'retry', destinationName(pipeName, destination))
  const retry = useChange(() => api.call('retryNow', { path: { pipe_id: pipeId, destination_id: id } }))
  const runRetry = () =>
    retry.mutate(undefined, {
      onSuccess: ({ body }) =>
        say(body.retried ? 'Retrying now.' : 'No message blocks this lane any longer.', twin),
    })
  const close = () => setAsking(null)
  return (
    <>
      <FailureNotice failure={retry.error} />
      <div className={formStyles.actions}>
        {wordsOf(type).isPulled ? null : (
          <>
            <Button look="primary" changes disabled={!isFailing} isBusy={retry.isPending} onClick={runRetry}>
              Retry now
            </Button>
            {canSkip ? (
              <Button changes disabled={!isFailing} onClick={() => setAsking('skip')}>
                Skip the message …
              </Button>
            ) : null}
          </>
        )}
        <Button changes onClick={() => setAsking('rewind')}>
          Rewind …
        </Button>
        <Button changes onClick={() => setAsking(isBlocked ? 'unblock' : 'block')}>
          {isBlocked ? 'Unblock …' : 'Block …'}
        </Button>
        {destination.tls_pin ? (
          <Button changes onClick={() => setAsking('pin')}>
            Reset server key …
          </Button>
        ) : null}
        <span className={styles.apart}>
          <Button changes onClick={() => setAsking('delete')}>
            Delete …
          </Button>
        </span>
      </div>
      {canSkip ? null : (
        <Soft>
          No record is at fault, so skipping does not help: the next message would fail the same way. Correct
          the destination, test it under Edit, then retry. Nothing is lost in the meantime.
        </Soft>
      )}
      {isFailing ? <CliTwin command={twin} /> : null}
      {asking === null ? null : (
        <ActionDialog
          asking={asking}
          pipeName={pipeName}
          destination={destination}
          etag={etag}
          blockingRecords={blockingRecords}
          onClose={close}
        />
      )}
    </>
  )
}

function ActionDialog({
  asking,
  blockingRecords,
  etag,
  ...props
}: LaneActionsProps & { asking: Asking; onClose: () => void }) {
  if (asking === 'rewind') return <Rewind {...props} />
  if (asking === 'delete') return <Delete {...props} etag={etag} />
  return <SimpleDialog {...props} asking={asking} blockingRecords={blockingRecords} />
}

interface Action {
  title: string
  confirmLabel: string
  words: string
  command: string
  isDanger: boolean
  run: () => Promise<unknown>
  /** The message after a successful action. */
  done: string
  /** The page that shows the result. */
  link?: ToastLink
}

function SimpleDialog({
  asking,
  pipeName,
  destination,
  blockingRecords,
  onClose,
}: Omit<LaneActionsProps, 'etag'> & { asking: SimpleAction; onClose: () => void }) {
  const action = actions(pipeName, destination, blockingRecords)[asking]
  const act = useChange(action.run)
  return (
    <Confirm
      title={action.title}
      confirmLabel={action.confirmLabel}
      isDanger={action.isDanger}
      command={action.command}
      run={async () => {
        await act.mutateAsync()
        say(action.done, action.command, action.link)
      }}
      onClose={onClose}
    >
      {action.words}
    </Confirm>
  )
}

function actions(
  pipeName: string,
  destination: Destination,
  blockingRecords: number | null,
): Record<SimpleAction, Action> {
  const { lane, pipe_id: pipeId, destination_id: id } = destination
  const reference = destinationName(pipeName, destination)
  const name = nameOf(destination)
  const pending = pendingWords(lane)
  const records = blockingRecords === null ? 'its records' : counted(blockingRecords, 'record')
  return {
    skip: {
      title: `Skip and park this message (${records})?`,
      confirmLabel: blockingRecords === null ? 'Skip and park' : `Skip and park ${records}`,
      words: `The message is moved to the parked records of ${name} and not delivered now. You can correct and replay it there. ${nextWords(lane.pending_messages - 1)} Other destinations are not affected.`,
      command: command('lanes', 'skip', reference, '--yes'),
      isDanger: true,
      run: () => api.call('skipBlockingMessage', { path: { pipe_id: pipeId, destination_id: id } }),
      done: `The blocking message of ${name} was skipped and parked.`,
      link: { to: `/pipes/${pipeId}/destinations/${id}/parked`, words: 'Open parked records' },
    },
    block: {
      title: `Block ${name}?`,
      confirmLabel: 'Block',
      words: `Nothing is delivered to it until it is unblocked. Pending messages (${pending}) and new ones are kept until then, for at most the retention time of undelivered messages.`,
      command: command('destinations', 'block', reference),
      isDanger: true,
      run: () =>
        api.call('setDestinationStatus', {
          path: { pipe_id: pipeId, destination_id: id },
          body: { destination_status: 'blocked' },
        }),
      done: `${name} blocked.`,
    },
    unblock: {
      title: `Unblock ${name}?`,
      confirmLabel: 'Unblock',
      words: `Delivery of the pending messages (${pending}) continues immediately.`,
      command: command('destinations', 'unblock', reference),
      isDanger: false,
      run: () =>
        api.call('setDestinationStatus', {
          path: { pipe_id: pipeId, destination_id: id },
          body: { destination_status: 'active' },
        }),
      done: `${name} unblocked.`,
    },
    pin: {
      title: 'Trust a new key of the database server?',
      confirmLabel: 'Reset server key',
      words:
        'The next connection trusts the key that the server presents. Do this only if you know that the server has a new certificate. No record is affected.',
      command: command('destinations', 'reset-pin', reference),
      isDanger: true,
      run: () => api.call('resetTlsPin', { path: { pipe_id: pipeId, destination_id: id } }),
      done: `Server key of ${name} reset.`,
    },
  }
}

function pendingWords({ pending_messages: messages, pending_bytes: size }: LaneStatus): string {
  return `${counted(messages, 'message')}, ${bytes(size)}`
}

function Delete({
  pipeName,
  destination,
  etag,
  onClose,
}: Omit<LaneActionsProps, 'blockingRecords'> & { onClose: () => void }) {
  const [, go] = useLocation()
  const { lane } = destination
  const path = { pipe_id: destination.pipe_id, destination_id: destination.destination_id }
  const remove = useChange((ifMatch: string | null) => api.call('deleteDestination', { path, ifMatch }))
  const name = nameOf(destination)
  const pending = pendingWords(lane)
  const twin = command('destinations', 'delete', destinationName(pipeName, destination), '--yes')
  return (
    <ConfirmDelete
      title={`Delete ${name}?`}
      confirmLabel={lane.pending_messages === 0 ? 'Delete' : `Delete it and its ${pending}`}
      command={twin}
      seen={{ stored: destination, etag }}
      part={settingsOf}
      read={async () => {
        const { body, etag } = await api.call('getDestination', { path })
        return { stored: body.destination, etag }
      }}
      remove={async (ifMatch) => {
        await remove.mutateAsync(ifMatch)
        say(`${name} deleted.`, twin)
        go(`/pipes/${destination.pipe_id}`)
      }}
      onClose={onClose}
    >
      Messages that it has not received yet ({pending}) are not delivered to it. Records already stored there
      are not deleted. This cannot be undone.
    </ConfirmDelete>
  )
}

/** `waiting`: the number of messages after the skipped one. */
function nextWords(waiting: number): string {
  if (waiting <= 0) return 'No message is pending behind it.'
  return `The ${counted(waiting, 'message')} behind it ${waiting === 1 ? 'is' : 'are'} delivered next.`
}

/** Describes the effect on records that are stored already. */
function repeatWords({ destination_type: type, columns = [] }: Destination): string {
  if (!wordsOf(type).isDatabase) return 'The destination receives those a second time.'
  return columns.some(({ semantic_role }) => semantic_role === 'dedupe_id')
    ? 'The table has a unique id, so each of them stays one row.'
    : 'No column is a unique id, so they are stored a second time.'
}

type Point = 'earliest' | 'time' | 'seq'

function Rewind({
  pipeName,
  destination,
  onClose,
}: {
  pipeName: string
  destination: Destination
  onClose: () => void
}) {
  const [point, setPoint] = useState<Point>('time')
  const [time, setTime] = useState('')
  const [seq, setSeq] = useState('')
  const { pipe_id: pipeId, destination_id: id, lane } = destination
  const to = pointOf(point, time, seq)
  const rewind = useChange(() =>
    api.call('rewindDestination', { path: { pipe_id: pipeId, destination_id: id }, body: { to } }),
  )
  const twin = command('lanes', 'rewind', destinationName(pipeName, destination), '--to', String(to), '--yes')
  const error = fieldErrors(rewind.error).to
  const submit = () =>
    rewind.mutate(undefined, {
      onSuccess: ({ body }) => {
        say(`The lane continues after stream_seq ${body.cursor_seq}.`, twin)
        onClose()
      },
    })
  return (
    <FormDialog
      title={`Rewind ${nameOf(destination)}?`}
      onClose={onClose}
      onSubmit={submit}
      failure={rewind.error}
      shown={['to']}
      confirmLabel="Rewind and deliver again"
      runningLabel="Rewinding …"
      isRunning={rewind.isPending}
      isDanger
      command={twin}
    >
      <p>
        All records from that point on are delivered again, including those that are stored already.{' '}
        {repeatWords(destination)} The lane is now at stream_seq {lane.cursor_seq}.
      </p>
      <Choice
        label="Rewind to"
        value={point}
        options={[
          ['time', 'a point in time'],
          ['earliest', 'the oldest stored message'],
          ['seq', 'a stream_seq'],
        ]}
        onValue={setPoint}
      />
      {point === 'time' ? (
        <TextField
          label="Time (in the time zone of this computer)"
          type="datetime-local"
          step="1"
          required
          value={time}
          onValue={setTime}
          error={error}
        />
      ) : null}
      {point === 'seq' ? (
        <TextField
          label="stream_seq"
          inputMode="numeric"
          required
          value={seq}
          onValue={setSeq}
          error={error}
        />
      ) : null}
    </FormDialog>
  )
}

function pointOf(point: Point, time: string, seq: string): string | number {
  if (point === 'earliest') return 'earliest'
  if (point === 'time') return Number.isNaN(Date.parse(time)) ? time : new Date(time).toISOString()
  return /^\d+$/.test(seq.trim()) ? Number(seq.trim()) : seq
}
