/** How a new workspace and its first key are shown: the only time the whole key is seen. */
import type { CreatedWorkspace } from '../data-dir.ts'

export function printWorkspace(created: CreatedWorkspace, asJson: boolean): void {
  if (asJson) {
    process.stdout.write(`${JSON.stringify(created)}\n`)
    return
  }
  process.stdout.write(
    `Workspace  ${created.workspace_name}  (${created.workspace_id})\n` +
      `API key    ${created.api_key}\n` +
      '           This key is shown once and cannot be shown again: keep it now.\n' +
      `           export PIPECTL_API_KEY=${created.api_key}\n`,
  )
}
