/** One parked record: why was it rejected, and what must change for the destination to accept it? */
import { useState } from 'react'
import { Link, useLocation } from 'wouter'
import type { ParkedDetail } from '../../../../contract/parked.ts'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import { checkRecords } from '../../../client/json-check.ts'
import {
  compacted,
  editableText,
  errorWords,
  placeWords,
  type ReplayOutcome,
  recordTextsOf,
  replayBody,
  replayOutcome,
} from '../../../client/parked.ts'
import type { LaneRef } from '../../../client/workspace.ts'
import { api } from '../../data/api.ts'
import { useChange } from '../../data/queries.ts'
import { useMayChange } from '../../data/session-context.ts'
import { Button, formStyles } from '../../ui/controls.tsx'
import { Confirm } from '../../ui/dialog.tsx'
import { FailureNotice } from '../../ui/failure.tsx'
import { CliTwin, Empty, Facts, Notice, Page, Section, Skeleton, Soft, Table } from '../../ui/layout.tsx'
import { Ago, Outside } from '../../ui/text.tsx'
import { say } from '../../ui/toasts.tsx'
import { MessageLink } from '../message/words.tsx'
import { LaneCrumb, parkedPath, useReference } from './crumbs.tsx'
import { Diff } from './diff.tsx'
import { JsonEditor } from './editor.tsx'
import { useParked } from './queries.ts'

const outcomeWaitMs = 60_000

export function ParkedPage(params: { pipeId: string; destinationId: string; parkedId: string }) {
  const { parkedId, ...place } = params
  const { data, error } = useParked(place, parkedId)
  const [outcome, setOutcome] = useState<ReplayOutcome | null>(null)
  return (
    <Page
      title="Parked record"
      name={data ? `Parked record ${placeWords(data.body)}` : 'Parked record'}
      crumbs={<LaneCrumb place={place} withList />}
    >
      {outcome === null ? null : <Outcome outcome={outcome} place={place} />}
      {outcome?.kind === 'stored' ? null : data === undefined ? (
        error === null ? (
          <Skeleton lines={10} />
        ) : (
          <FailureNotice failure={error} />
        )
      ) : data !== null ? (
        <One place={place} body={data.body} text={data.text} onOutcome={setOutcome} />
      ) : outcome === null ? (
        <Empty title="This record is not parked, or no longer">
          <p>A replay stored it, a user discarded it, or its retention time ended.</p>
          <Link to={parkedPath(place)}>Go to the parked records</Link>
        </Empty>
      ) : null}
    </Page>
  )
}

function Outcome({ outcome, place }: { outcome: ReplayOutcome; place: LaneRef }) {
  switch (outcome.kind) {
    case 'stored':
      return (
        <Notice kind="good" actions={<Link to={parkedPath(place)}>Go to the parked records</Link>}>
          Stored: the destination accepted it.
        </Notice>
      )
    case 'failed':
      return (
        <Notice kind="bad">
          Failed again: <Outside text={errorWords(outcome.error)} />
        </Notice>
      )
    case 'waiting':
      return <Notice>The replay is waiting in the lane. This page shows its result.</Notice>
    case 'left':
      return <Notice kind="warn">It was not replayed.</Notice>
  }
}

interface OneProps {
  place: LaneRef
  body: Omit<ParkedDetail, 'records'>
  text: string
  onOutcome: (outcome: ReplayOutcome | null) => void
}

function One({ place, body, text, onOutcome }: OneProps) {
  return (
    <>
      <Notice kind="warn">
        {body.reason === 'skipped' ? 'Skipped. The destination reported: ' : 'Rejected: '}
        <Outside text={errorWords(body.error)} />
      </Notice>
      <Facts
        facts={[
          ['Message', <MessageLink key="id" msgId={body.msg_id} />],
          ['Record', body.record_index === null ? 'the whole message' : placeWords(body)],
          ['Parked', <Ago key="at" at={body.parked_ts} />],
          ['Attempts', `${count(body.attempts)}, including ${counted(body.replays, 'replay')}`],
          ['Records', count(body.records_count)],
        ]}
      />
      <Edit place={place} body={body} text={text} onOutcome={onOutcome} />
      {body.history.length === 0 ? null : (
        <Section title="Earlier failures">
          <Table
            caption="Earlier failures"
            rows={body.history.map((one, at) => ({ ...one, at }))}
            keyOf={(one) => String(one.at)}
            columns={[
              { label: 'When', cell: (one) => <Ago at={one.failed_ts} /> },
              { label: 'Error', cell: (one) => <Outside text={errorWords(one.error)} /> },
            ]}
          />
        </Section>
      )}
    </>
  )
}

/** The typed text stays while the page is open, whatever the result of a replay. */
function Edit({ place, body, text, onOutcome }: OneProps) {
  const [draft, setDraft] = useState<string | null>(null)
  const [asking, setAsking] = useState<'replay' | 'discard' | null>(null)
  const [, go] = useLocation()
  const mayChange = useMayChange()
  const reference = useReference(place)
  const stored = editableText(recordTextsOf(text))
  const shown = draft ?? stored
  const { records, fault } = checkRecords(shown, body.records_count)
  const edited = records === null ? null : editableText(records)
  const isChanged = edited !== stored
  const isReplaying = body.state === 'replaying'
  const replay = useChange((given: string[] | null) =>
    api.call('replayParked', {
      path: { pipe_id: place.pipeId, destination_id: place.destinationId, parked_id: body.parked_id },
      body: replayBody(given),
    }),
  )
  const discard = useChange(() =>
    api.call('deleteParked', {
      path: { pipe_id: place.pipeId, destination_id: place.destinationId, parked_id: body.parked_id },
    }),
  )
  const run = async (given: string[] | null) => {
    onOutcome(null)
    const { replays } = (await replay.mutateAsync(given)).body
    onOutcome({ kind: 'waiting' })
    replayOutcome(api, place, { parkedId: body.parked_id, replays }, outcomeWaitMs).then(onOutcome, () => {})
  }
  const name = placeWords(body)
  const replayTwin = command('parked', 'replay', reference, body.parked_id)
  const discardTwin = command('parked', 'discard', reference, body.parked_id, '--yes')
  return (
    <Section title={body.records_count === 1 ? 'The record' : 'The records'}>
      <JsonEditor label="JSON" value={shown} readOnly={!mayChange} fault={fault} onValue={setDraft} />
      <FailureNotice failure={asking === null ? replay.error : null} />
      <div className={formStyles.actions}>
        {isChanged ? (
          <Button
            look="primary"
            changes
            disabled={records === null || isReplaying}
            onClick={() => setAsking('replay')}
          >
            Replay with changes …
          </Button>
        ) : (
          <Button
            look="primary"
            changes
            disabled={isReplaying || replay.isPending}
            onClick={() => void run(null).catch(() => {})}
          >
            Replay
          </Button>
        )}
        {draft === null || draft === stored ? null : (
          <Button onClick={() => setDraft(null)}>Restore the stored text</Button>
        )}
        <Button changes disabled={isReplaying} onClick={() => setAsking('discard')}>
          Discard …
        </Button>
        {isReplaying ? <Soft>Replaying …</Soft> : null}
      </div>
      <CliTwin command={isChanged ? command('parked', 'edit', reference, body.parked_id) : replayTwin} />
      {asking === 'replay' && records !== null ? (
        <Confirm
          title="Replay with these changes?"
          deed="Replay"
          isDanger={false}
          command={command('parked', 'edit', reference, body.parked_id)}
          run={async () => {
            await run(records.map(compacted))
            setDraft(null)
          }}
          onClose={() => setAsking(null)}
        >
          <p>They replace the stored record. The destination receives it after the current batch.</p>
          <Diff before={stored} after={edited ?? stored} />
        </Confirm>
      ) : null}
      {asking === 'discard' ? (
        <Confirm
          title={`Discard parked record ${name}?`}
          deed="Discard"
          command={discardTwin}
          run={async () => {
            await discard.mutateAsync()
            say(`Parked record ${name} discarded.`, discardTwin)
            go(parkedPath(place))
          }}
          onClose={() => setAsking(null)}
        >
          The destination never receives it. This cannot be undone.
        </Confirm>
      ) : null}
    </Section>
  )
}
