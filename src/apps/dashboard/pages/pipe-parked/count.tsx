/** A line with the number of records that are parked at a pipe. Nothing is shown if there are none. */
import { Link } from 'wouter'
import { counted } from '../../../../platform/quantities.ts'
import { Notice } from '../../ui/layout.tsx'
import { pipeParkedPath, usePipeParkedCount } from './queries.ts'

export function ParkedAtPipe({ pipeId }: { pipeId: string }) {
  const parked = usePipeParkedCount(pipeId)
  if (parked === 0) return null
  return (
    <Notice kind="warn" actions={<Link to={pipeParkedPath(pipeId)}>Show them</Link>}>
      {counted(parked, 'record')} parked at the pipe: they do not match its schema.
    </Notice>
  )
}
