/** Operations that find and delete personal data in the buffer and among parked records. `management/` serves them. */
import { accepted, everyManaged, managed, noContent, type Operation, ok, withBody } from './operation.ts'
import { PrivacyJob, PrivacyJobList, PrivacyRequest } from './privacy.ts'

export const privacyOperations = [
  {
    ...managed('listPrivacyJobs', 'nothing'),
    summary: 'List the jobs that find or delete personal data',
    success: ok('The jobs, newest first, without their matches', PrivacyJobList),
    errors: everyManaged,
  },
  {
    ...managed('createPrivacyJob', 'nothing'),
    summary: 'Find or delete the records of a person',
    description:
      'Covers the records of the buffer, parked records and damaged messages that were acknowledged before the request. The job continues after a restart of the daemon. A deleted record is not delivered afterwards; other records of its message keep their position and identity. The job lists where copies remain. Not in a cluster.',
    request: PrivacyRequest,
    success: accepted('The job, which waits or runs', PrivacyJob),
    errors: ['pipe_not_found', 'privacy_unavailable', 'too_many_privacy_jobs', ...withBody],
  },
  {
    ...managed('getPrivacyJob', 'nothing'),
    summary: 'Show a job that finds or deletes personal data, and its progress',
    success: ok('The job', PrivacyJob),
    errors: ['privacy_job_not_found', ...everyManaged],
  },
  {
    ...managed('cancelPrivacyJob', 'nothing'),
    summary: 'Cancel a job that finds or deletes personal data',
    description: 'What was deleted before stays deleted.',
    success: noContent('Cancelled'),
    errors: ['privacy_job_not_found', 'privacy_job_finished', ...everyManaged],
  },
] as const satisfies readonly Operation[]
