/** `pipectl repair`: repairs a stopped data directory as the daemon would, and shows each step. */
import type { Command } from 'commander'
import type { RepairAction, RepairReport } from '../../maintenance/repair.ts'
import { counted } from '../../platform/quantities.ts'
import { singleMachineSettings } from './daemon-settings.ts'
import { define } from './define.ts'
import { listView, print, type View } from './output.ts'
import { withByteProgress } from './progress.ts'
import { confirm, say } from './terminal.ts'

export function addRepairCommand(program: Command): void {
  define<{ dryRun?: boolean }>(program, {
    usage: 'repair',
    summary: 'repair the buffer of a stopped data directory; damaged files go to quarantine/',
    help: `Reads everything first, like verify. Damaged segments are rewritten with every readable message; the high-water mark and
the idempotency keys are rebuilt; lost ranges are recorded. Nothing is deleted, and metadata.db is not changed. The daemon
makes the same repairs by itself: stop it to see them first. --dry-run changes nothing.`,
    json: true,
    examples: [
      'pipectl repair --data-dir /var/lib/pipectl --dry-run',
      'pipectl repair --data-dir /var/lib/pipectl --yes',
    ],
    output: true,
    destructive: true,
    dataDir: true,
    options: (command) => {
      command.option('--dry-run', 'show what would be done; change nothing')
    },
    action: async (_, options) => {
      const { data_dir: dataDir } = await singleMachineSettings('repair', options)
      const { holdDataDir, planRepair, repairDataDir } = await import('../../maintenance/repair.ts')
      const { requireDataDir, verifyDataDir } = await import('../../maintenance/verify.ts')
      requireDataDir(dataDir)
      const release = holdDataDir(dataDir)
      try {
        const verified = await withByteProgress((onProgress) =>
          verifyDataDir(dataDir, ({ doneBytes, totalBytes }) => onProgress(doneBytes, totalBytes)),
        )
        const plan = planRepair(verified)
        const show = async (is_dry_run: boolean, actions: RepairAction[]) =>
          print(repairView({ data_dir: dataDir, is_dry_run, actions }), options.output)
        if (options.dryRun === true || plan.length === 0) return await show(true, plan)
        await confirm(`Repair ${dataDir}: ${counted(plan.length, 'step')}?`, options.yes)
        await show(false, repairDataDir(dataDir, verified))
        say('`pipectl verify` checks the result.')
      } finally {
        release()
      }
    },
  })
}

function repairView(report: RepairReport): View {
  const { actions } = report
  return listView(actions, {
    json: JSON.stringify(report),
    name: (one) => one.file,
    columns: [
      ['ACTION', (one) => one.action],
      [{ label: 'FILE', shrinksTo: 20, keepsEnd: true }, (one) => one.file],
      ['KEPT', (one) => counts(one.kept_messages)],
      ['LOST', (one) => counts(one.lost_messages)],
      [{ label: 'DETAIL', wraps: true }, (one) => one.detail],
    ],
    empty: 'Nothing to repair.',
  })
}

const counts = (messages: number | null) => (messages === null ? '-' : String(messages))
