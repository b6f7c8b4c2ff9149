/** The command that does the same to several lanes. */
import { command, destinationName } from '../../client/cli-twin.ts'
import type { LaneAction } from '../../client/lane-batch.ts'
import type { LaneOfPipe } from '../../client/overview.ts'

/** More names than this are no command that can be used. */
const namesInCommand = 100

/** Null: it would be too long. */
export function laneCommand(action: LaneAction, lanes: readonly LaneOfPipe[]): string | null {
  if (lanes.length > namesInCommand) return null
  const names = lanes.map(({ pipe, destination }) => destinationName(pipe.pipe_name, destination))
  if (action === 'retry') return command('lanes', 'retry', ...names)
  return names.map((name) => command('destinations', action, name, '--yes')).join('\n')
}
