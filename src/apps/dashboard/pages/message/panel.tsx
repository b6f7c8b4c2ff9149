/** One message at the edge of the list: its facts, its lanes, its records. J and K open its neighbors. */
import { useEffect } from 'react'
import { Link } from 'wouter'
import { count, counted } from '../../../../platform/quantities.ts'
import { command } from '../../../client/cli-twin.ts'
import type { MessageDetail } from '../../../client/client.ts'
import { errorLine } from '../../../client/lane-error.ts'
import { isNotFound } from '../../data/api.ts'
import { usePipeOverview } from '../../data/overview.ts'
import { Button, ButtonLink, formStyles } from '../../ui/controls.tsx'
import { Copy } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Loading } from '../../ui/failure.tsx'
import { LaneLink } from '../../ui/lane-words.tsx'
import { CliTwin, Facts, Soft } from '../../ui/layout.tsx'
import { Ago, exactTime, Outside } from '../../ui/text.tsx'
import styles from './messages.module.css'
import { Next } from './next.tsx'
import { useMessage } from './queries.ts'
import { Records } from './records.tsx'
import { StateOfMessage } from './words.tsx'

interface PanelProps {
  msgId: string
  /** The listed messages, newest first. */
  ids: readonly string[]
  /** Null: closes the panel. */
  onOpen: (msgId: string | null) => void
}

export function MessagePanel({ msgId, ids, onOpen }: PanelProps) {
  const { data, error } = useMessage(msgId)
  const at = ids.indexOf(msgId)
  const [newer, older] = at === -1 ? [] : [ids[at - 1], ids[at + 1]]
  useEffect(() => {
    const onKey = ({ key, target, ctrlKey, metaKey, altKey }: KeyboardEvent) => {
      if (ctrlKey || metaKey || altKey || (target instanceof Element && target.closest('input, textarea')))
        return
      const wanted = key === 'j' ? older : key === 'k' ? newer : undefined
      if (wanted !== undefined) onOpen(wanted)
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [newer, older, onOpen])
  return (
    <Dialog title="Message" open side onClose={() => onOpen(null)}>
      <div className={styles.panelHead}>
        <div className={formStyles.actions}>
          <Button title="Newer (K)" disabled={newer === undefined} onClick={() => newer && onOpen(newer)}>
            Newer
          </Button>
          <Button title="Older (J)" disabled={older === undefined} onClick={() => older && onOpen(older)}>
            Older
          </Button>
          <ButtonLink to={`/messages/${encodeURIComponent(msgId)}`}>Open page</ButtonLink>
        </div>
        <Button onClick={() => onOpen(null)}>Close</Button>
      </div>
      {data !== undefined ? (
        <Content body={data.body} text={data.text} />
      ) : isNotFound(error) ? (
        <p>
          There is no message <code>{<Outside text={msgId} />}</code>, or it is no longer kept.
        </p>
      ) : (
        <Loading error={error} lines={10} />
      )}
    </Dialog>
  )
}

function Content({ body, text }: { body: MessageDetail; text: string }) {
  const pipe = usePipeOverview(body.pipe_id)
  return (
    <>
      <div className={styles.panelHead}>
        <code>{body.msg_id}</code>
        <Copy text={body.msg_id} what="msg_id" />
      </div>
      <Facts
        facts={[
          [
            'Pipe',
            <Link key="pipe" to={`/pipes/${body.pipe_id}`}>
              <Outside text={pipe?.pipe_name ?? body.pipe_id} />
            </Link>,
          ],
          ['Received', exactTime(body.received_ts)],
          ['Records', count(body.records_count)],
          ['stream_seq', count(body.stream_seq)],
        ]}
      />
      <h3>Delivery</h3>
      {body.lanes.length === 0 ? (
        <Soft>The pipe had no destination when the message was received.</Soft>
      ) : (
        <ul className={styles.laneList}>
          {body.lanes.map((lane) => (
            <Lane key={lane.destination_id} body={body} lane={lane} />
          ))}
        </ul>
      )}
      <h3>Records</h3>
      <Records body={body} text={text} />
      <CliTwin command={command('why', body.msg_id)} />
    </>
  )
}

function Lane({ body, lane }: { body: MessageDetail; lane: MessageDetail['lanes'][number] }) {
  const { pipe_id: pipeId, msg_id: msgId } = body
  const destination = usePipeOverview(pipeId)?.lanes.find(
    ({ destination_id: id }) => id === lane.destination_id,
  )
  const { state, delivered_ts: at, attempts, last_error: error } = lane
  return (
    <li>
      <div className={styles.laneHead}>
        {destination === undefined ? (
          <code>{lane.destination_id}</code>
        ) : (
          <LaneLink pipeId={pipeId} destination={destination} />
        )}
        <StateOfMessage state={state} lane={destination?.lane} />
      </div>
      <Soft>
        {state === 'delivered' && at !== null ? (
          <>
            <Ago at={at} />
            {attempts > 1 ? `, ${counted(attempts, 'attempt')}` : null}
          </>
        ) : attempts > 0 ? (
          counted(attempts, 'attempt')
        ) : null}
      </Soft>
      {error === null ? null : (
        <div>
          <Outside text={errorLine(error)} />
        </div>
      )}
      {state === 'delivered' ? null : (
        <div>
          <Next pipeId={pipeId} msgId={msgId} lane={lane} type={destination?.destination_type} />
        </div>
      )}
    </li>
  )
}
