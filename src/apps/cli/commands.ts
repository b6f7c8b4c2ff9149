/**
 * Registers every client command and the commands on a data directory. Only their texts and options are defined here.
 * The code of a command is imported when it runs.
 */
import type { Command } from 'commander'
import { addAlertsCommands } from './alerts.ts'
import { addApplyCommands } from './apply.ts'
import { addAttemptsCommand } from './attempts.ts'
import { addAuditCommand } from './audit.ts'
import { addCompletionCommands } from './completion.ts'
import { addConfigCommand } from './config.ts'
import { workspacesCommand } from './daemon-commands.ts'
import { addDataDirCommands } from './data-dir-commands.ts'
import { addDestinationsCommands } from './destinations.ts'
import { addHelpCommand } from './help-command.ts'
import { addIngestCommand } from './ingest.ts'
import { addKeysCommands } from './keys.ts'
import { addLanesCommands } from './lanes.ts'
import { addLimitsCommands } from './limits.ts'
import { addMessageCommands } from './messages.ts'
import { addMigrateCommand } from './migrate.ts'
import { addNodesCommands } from './nodes.ts'
import { addOriginsCommands } from './origins.ts'
import { addParkedCommands } from './parked.ts'
import { addPipesCommands } from './pipes.ts'
import { addPrivacyCommands } from './privacy.ts'
import { addProfileCommands } from './profile.ts'
import { addPullCommand } from './pull.ts'
import { addQueryCommand } from './query.ts'
import { addReplicaCommands } from './replica.ts'
import { addStatusCommands } from './status.ts'
import { addTailCommand } from './tail.ts'
import { addTopCommand } from './top.ts'
import { addUpgradeCommand } from './upgrade.ts'
import { addUsageCommand } from './usage.ts'
import { addUsersCommands } from './users.ts'
import { addVersionCommand } from './version.ts'

/** In the groups of `pipectl --help`. The first group is that of the caller. */
export function registerCommands(program: Command): void {
  addProfileCommands(program)
  addCompletionCommands(program)
  addVersionCommand(program)
  addHelpCommand(program)
  addConfigCommand(program)
  program.commandsGroup('Pipes and destinations:')
  addPipesCommands(program)
  addDestinationsCommands(program)
  addLimitsCommands(program)
  addOriginsCommands(program)
  addIngestCommand(program)
  addTailCommand(program)
  addPullCommand(program)
  addQueryCommand(program)
  addApplyCommands(program)
  program.commandsGroup('Operate:')
  addStatusCommands(program)
  addTopCommand(program)
  addLanesCommands(program)
  addParkedCommands(program)
  addMessageCommands(program)
  addAttemptsCommand(program)
  addPrivacyCommands(program)
  addUsageCommand(program)
  addAlertsCommands(program)
  addReplicaCommands(program)
  addUpgradeCommand(program)
  program.commandsGroup('Access:')
  addKeysCommands(program)
  addUsersCommands(program)
  program.addCommand(workspacesCommand())
  addAuditCommand(program)
  program.commandsGroup('Data directory:')
  addDataDirCommands(program)
  program.commandsGroup('Cluster:')
  addNodesCommands(program)
  addMigrateCommand(program)
}
