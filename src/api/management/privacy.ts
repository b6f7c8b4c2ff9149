/** Jobs that find or delete personal data: request, list, show, cancel (docs/personal-data.md). */
import { ApiError } from '../../contract/errors.ts'
import type { PrivacyJob, PrivacyJobList, PrivacyKey } from '../../contract/privacy.ts'
import { pathKeys } from '../../contract/transform.ts'
import { throwIfErrors } from '../../contract/validate.ts'
import type { Call } from './call.ts'
import type { ManagementDeps } from './deps.ts'

type Deps = Pick<ManagementDeps, 'metadata' | 'headSeq' | 'cluster' | 'privacyChanged'>

export function privacyUseCases({ metadata, headSeq, cluster, privacyChanged }: Deps) {
  const { privacy } = metadata

  /** Rejects ids that are not a pipe of the workspace, so that a typo is not reported as "nothing found". */
  async function requirePipes(workspaceId: string, pipeIds: readonly string[]): Promise<void> {
    const found = await privacy.erasablePipes(workspaceId, pipeIds)
    const known = new Set(found.map(({ pipeId }) => pipeId))
    if (pipeIds.some((id) => !known.has(id))) throw new ApiError('pipe_not_found')
  }

  return {
    async createPrivacyJob({ principal, body }: Call<'createPrivacyJob'>): Promise<PrivacyJob> {
      const { workspaceId } = principal
      if (cluster !== null) throw new ApiError('privacy_unavailable')
      requirePaths(body.keys)
      const pipeIds = body.pipe_ids?.map((id) => id.toLowerCase()) ?? null
      if (pipeIds !== null) await requirePipes(workspaceId, pipeIds)
      const { kind, keys } = body
      const result = await privacy.create(workspaceId, { kind, keys, pipeIds, throughSeq: await headSeq() })
      if (result.kind === 'full') throw new ApiError('too_many_privacy_jobs')
      privacyChanged(result.job.job_id)
      return result.job
    },

    async listPrivacyJobs({ principal }: Call<'listPrivacyJobs'>): Promise<PrivacyJobList> {
      return { jobs: await privacy.list(principal.workspaceId) }
    },

    async getPrivacyJob({ principal, path }: Call<'getPrivacyJob'>): Promise<PrivacyJob> {
      const job = await privacy.get(principal.workspaceId, path.job_id)
      if (job === null) throw new ApiError('privacy_job_not_found')
      return job
    },

    async cancelPrivacyJob({ principal, path }: Call<'cancelPrivacyJob'>): Promise<void> {
      const result = await privacy.cancel(principal.workspaceId, path.job_id)
      if (result === 'not_found') throw new ApiError('privacy_job_not_found')
      if (result === 'finished') throw new ApiError('privacy_job_finished')
      privacyChanged(path.job_id)
    },
  }
}

function requirePaths(keys: readonly PrivacyKey[]): void {
  const faults: Record<string, string> = {}
  for (const [index, { path }] of keys.entries()) {
    const parsed = pathKeys(path)
    if ('wrong' in parsed) faults[`keys.${index}.path`] = parsed.wrong
  }
  throwIfErrors(faults)
}
