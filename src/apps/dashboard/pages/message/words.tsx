/** Messages in words: their address, and what became of them in a lane. */
import { Link } from 'wouter'
import type { MessageState } from '../../../../contract/message.ts'
import { Marked } from '../../ui/state.tsx'

export function MessageLink({ msgId }: { msgId: string }) {
  return (
    <Link to={`/messages/${msgId}`}>
      <code>{msgId}</code>
    </Link>
  )
}

const kinds = {
  delivered: 'flowing',
  pending: 'idle',
  stuck: 'stuck',
  parked: 'blocked',
  skipped: 'idle',
  dropped: 'stuck',
} as const satisfies Record<MessageState, string>

export function StateOfMessage({ state }: { state: MessageState }) {
  return <Marked kind={kinds[state]}>{state}</Marked>
}
