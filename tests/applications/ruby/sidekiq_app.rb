# Sidekiq: jobs, retries, scheduled jobs and bulk pushes through a worker process, and its own API.
require_relative 'jobs'
require 'sidekiq/api'

def check(name, found, expected)
  raise "#{name}: #{found.inspect}, expected #{expected.inspect}" unless found == expected

  puts "sidekiq: #{name}"
end

def take(count) = Array.new(count) { Sidekiq.redis { |redis| redis.blpop('done', timeout: 40) }&.last }

Sidekiq.redis(&:flushdb)
Double.perform_async(1)
check('a queue that nobody works on', Sidekiq::Queue.new.size, 1)
worker = spawn('sidekiq', '-r', File.join(__dir__, 'jobs.rb'), '-c', '4')
begin
  check('a job', take(1), ['2'])
  Sidekiq::Client.push_bulk('class' => Double, 'args' => (0...200).map { |number| [number] })
  check('200 jobs in bulk', take(200).map(&:to_i).sort, (0...200).map { |number| number * 2 })
  Double.perform_in(0.5, 21)
  check('a scheduled job', Sidekiq::ScheduledSet.new.size, 1)
  check('the scheduled job ran', take(1), ['42'])
  Flaky.perform_async
  check('a job that is tried again', take(1), ['flaky'])
  Double.perform_in(3600, 1)
  Sidekiq::ScheduledSet.new.first.delete
  check('a scheduled job is deleted', Sidekiq::ScheduledSet.new.size, 0)
  check('the process is known', Sidekiq::ProcessSet.new.size, 1)
ensure
  Process.kill('TERM', worker)
  Process.wait(worker)
end
check('what was processed', Sidekiq::Stats.new.processed >= 203, true)
