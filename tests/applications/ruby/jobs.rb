# The jobs that the worker process runs. What they have done is written to a list that the test waits for.
require 'sidekiq'

URL = "redis://127.0.0.1:#{ENV.fetch('PORT')}/3"
Sidekiq.configure_client { |config| config.redis = { url: URL } }
Sidekiq.configure_server do |config|
  config.redis = { url: URL }
  config.logger.level = Logger::FATAL
  config.options[:poll_interval_average] = 0.3
end

def tell(text) = Sidekiq.redis { |redis| redis.rpush('done', text) }

class Double
  include Sidekiq::Worker

  def perform(number) = tell(number * 2)
end

class Flaky
  include Sidekiq::Worker
  sidekiq_options retry: 3
  sidekiq_retry_in { 1 }

  def perform
    tries = Sidekiq.redis { |redis| redis.incr('tries') }
    raise 'not yet' if tries < 2

    tell('flaky')
  end
end
