/**
 * Every command that speaks to a daemon, and those that look after a data directory. Only words and options are
 * made here; what a command does is imported when it runs.
 */
import type { Command } from 'commander'
import { addAlertsCommands } from './alerts.ts'
import { addApplyCommands } from './apply.ts'
import { addAuditCommand } from './audit.ts'
import { addCompletionCommands } from './completion.ts'
import { addConfigCommand } from './config.ts'
import { addDataDirCommands } from './data-dir-commands.ts'
import { addDestinationsCommands } from './destinations.ts'
import { addIngestCommand } from './ingest.ts'
import { addKeysCommands } from './keys.ts'
import { addLanesCommands } from './lanes.ts'
import { addLimitsCommands } from './limits.ts'
import { addMessageCommands } from './messages.ts'
import { addNodesCommands } from './nodes.ts'
import { addOriginsCommands } from './origins.ts'
import { addParkedCommands } from './parked.ts'
import { addPipesCommands } from './pipes.ts'
import { addProfileCommands } from './profile.ts'
import { addPullCommand } from './pull.ts'
import { addStatusCommands } from './status.ts'
import { addTailCommand } from './tail.ts'
import { addTopCommand } from './top.ts'
import { addUsageCommand } from './usage.ts'
import { addUsersCommands } from './users.ts'
import { addVersionCommand } from './version.ts'

export function registerCommands(program: Command): void {
  addPipesCommands(program)
  addDestinationsCommands(program)
  addLanesCommands(program)
  addParkedCommands(program)
  addLimitsCommands(program)
  addOriginsCommands(program)
  addKeysCommands(program)
  addUsersCommands(program)
  addAlertsCommands(program)
  addAuditCommand(program)
  addIngestCommand(program)
  addMessageCommands(program)
  addTailCommand(program)
  addPullCommand(program)
  addStatusCommands(program)
  addUsageCommand(program)
  addTopCommand(program)
  addApplyCommands(program)
  addConfigCommand(program)
  addProfileCommands(program)
  addDataDirCommands(program)
  addNodesCommands(program)
  addVersionCommand(program)
  addCompletionCommands(program)
}
