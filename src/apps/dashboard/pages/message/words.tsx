/** Describes messages: their address, and their state in a lane. */
import { Link } from 'wouter'
import type { LaneStatus } from '../../../../contract/destination.ts'
import { type MessageState, messageWord } from '../../../../contract/state-words.ts'
import { Id, IdCopy } from '../../ui/id.tsx'
import { Word } from '../../ui/state.tsx'

export function MessageLink({ msgId }: { msgId: string }) {
  return (
    <>
      <Link to={`/messages/${msgId}`}>
        <Id id={msgId} />
      </Link>
      <IdCopy id={msgId} what="the id of the message" />
    </>
  )
}

/** `lane`: undefined if it is not known. */
export function StateOfMessage({ state, lane }: { state: MessageState; lane?: LaneStatus | undefined }) {
  return <Word word={messageWord(state, lane)} />
}
