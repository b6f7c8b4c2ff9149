/** Shows the warning from the check of a saved transform. It stays visible, because saving opens another page. */
import type { TransformCheck } from '../../../../contract/transform-trial.ts'
import { warn } from '../../ui/toasts.tsx'

export function warnOfTransform({
  pipe_id: pipeId,
  destination_id: id,
  destination_name: name,
  transform_check: check,
  isUnchecked,
}: {
  pipe_id: string
  destination_id: string
  destination_name: string
  transform_check?: TransformCheck | undefined
  /** The user saved without the check. */
  isUnchecked: boolean
}): void {
  const warning = isUnchecked ? 'Its transform was not tested on the newest records.' : check?.warning
  const link = { to: `/pipes/${pipeId}/destinations/${id}/edit`, words: 'Try it' }
  warn(id, warning ? `${name} saved. ${warning}` : null, link)
}
